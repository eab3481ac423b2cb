package guard

import (
	"context"
	"hash/maphash"
	"net/netip"
	"time"
)

// addressLimit limits each client address. An IPv6 client owns the /64 it sits
// in, so that is what is limited.
type addressLimit struct {
	*table
}

// Check implements Checker.
func (l addressLimit) Check(_ context.Context, r Request) (Verdict, error) {
	if wait, _ := l.take(l.key(r.Addr), r.At); wait > 0 {
		return Verdict{Outcome: Limited, Reason: "too many requests from this address", RetryAfter: wait}, nil
	}
	return Verdict{}, nil
}

func (l addressLimit) key(a netip.Addr) uint64 {
	switch a = a.Unmap(); {
	case a.Is4():
		b := a.As4()
		return maphash.Bytes(l.seed, b[:])
	case a.Is6():
		b := a.As16()
		return maphash.Bytes(l.seed, b[:8])
	}
	return maphash.Bytes(l.seed, nil)
}

// How long the last answer about a name may stand in for a new one. "Taken"
// stays for longer than any look-up can be on its way, and until then a late
// "free" does not replace it.
const (
	takenStands = 5 * time.Second
	freeStands  = time.Second
)

// nameLimit limits the look-ups of each name. Beyond the limit, the last answer
// is given again; without a fresh one the request is refused.
type nameLimit struct {
	*table
}

// Check implements Checker.
func (l nameLimit) Check(_ context.Context, r Request) (Verdict, error) {
	wait, note := l.take(maphash.String(l.seed, r.Name), r.At)
	if wait == 0 {
		return Verdict{}, nil
	}
	if at, taken := unpack(note); note != 0 && stands(at, taken, l.since(r.At)) {
		return Verdict{Outcome: LastAnswer, Reason: "this name is asked for very often", Taken: taken}, nil
	}
	return Verdict{Outcome: Limited, Reason: "this name is asked for too often", RetryAfter: wait}, nil
}

// answered notes an answer about name that a layer behind the guard gave.
func (l nameLimit) answered(name string, taken bool, now time.Time) {
	at := l.since(now)
	l.update(maphash.String(l.seed, name), func(note int64) int64 {
		if before, was := unpack(note); note != 0 && was && !taken && stands(before, true, at) {
			return note
		}
		return pack(at, taken)
	})
}

func stands(at int64, taken bool, now int64) bool {
	limit := freeStands
	if taken {
		limit = takenStands
	}
	age := time.Duration(now - at)
	return -limit <= age && age <= limit // a clock set back must not keep an answer for ever
}

// pack puts an answer and its time into a note. Notes are never 0.
func pack(at int64, taken bool) int64 {
	note := at<<2 | 2
	if taken {
		note |= 1
	}
	return note
}

func unpack(note int64) (at int64, taken bool) { return note >> 2, note&1 != 0 }
