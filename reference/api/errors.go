package api

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/shard"
)

const (
	// ErrorCapacity is how many errors an ErrorLog keeps, of whatever layer.
	ErrorCapacity = 1000
	// layerCapacity is how many of each layer it keeps beside, however many come
	// from the others: a storm in Redis must not sweep away the one error that
	// tells of its cause.
	layerCapacity = 100
	// maxMessage bounds the text of one error, in bytes.
	maxMessage = 1000
)

// ErrorLog keeps the newest failures in memory and counts all of them. It is
// safe for concurrent use.
type ErrorLog struct {
	mu      sync.Mutex
	all     errorRing
	byLayer map[reference.Layer]*errorRing
}

// NewErrorLog returns an empty log.
func NewErrorLog() *ErrorLog {
	return &ErrorLog{all: newErrorRing(ErrorCapacity), byLayer: map[reference.Layer]*errorRing{}}
}

// Record notes f with the present time.
func (l *ErrorLog) Record(f reference.Failure) {
	doc := errorDoc{
		At: time.Now(), Level: "error", Message: clip(f.Err.Error()),
		Layer: f.Layer, Target: f.Target, Code: code(f.Err),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byLayer[f.Layer]
	if of == nil {
		ring := newErrorRing(layerCapacity)
		of = &ring
		l.byLayer[f.Layer] = of
	}
	e := logged{doc, l.all.recorded}
	l.all.add(e)
	of.add(e)
}

// snapshot returns the kept errors, oldest first, how many there were, and what
// is gone of the layers of which not all are kept.
func (l *ErrorLog) snapshot() (kept []errorDoc, recorded uint64, gone map[reference.Layer]goneDoc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all.kept()
	begin := l.all.recorded - uint64(len(all))
	var older []logged
	for _, ring := range l.byLayer {
		for _, e := range ring.kept() {
			if e.number < begin {
				older = append(older, e)
			}
		}
	}
	slices.SortFunc(older, func(a, b logged) int { return cmp.Compare(a.number, b.number) })
	kept = make([]errorDoc, 0, len(older)+len(all))
	first, have := map[reference.Layer]time.Time{}, map[reference.Layer]uint64{}
	for _, e := range append(older, all...) {
		kept = append(kept, e.errorDoc)
		if have[e.Layer]++; have[e.Layer] == 1 {
			first[e.Layer] = e.At
		}
	}
	gone = map[reference.Layer]goneDoc{}
	for layer, ring := range l.byLayer {
		if n := ring.recorded - have[layer]; n > 0 {
			gone[layer] = goneDoc{Count: n, KeptSince: first[layer]}
		}
	}
	return kept, l.all.recorded, gone
}

func (l *ErrorLog) counts() map[reference.Layer]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[reference.Layer]uint64, len(l.byLayer))
	for layer, ring := range l.byLayer {
		out[layer] = ring.recorded
	}
	return out
}

// logged is an error with its number among all, from 0.
type logged struct {
	errorDoc

	number uint64
}

// errorRing keeps the newest errors.
type errorRing struct {
	entries  []logged
	recorded uint64
}

func newErrorRing(capacity int) errorRing { return errorRing{entries: make([]logged, 0, capacity)} }

func (r *errorRing) add(e logged) {
	if len(r.entries) < cap(r.entries) {
		r.entries = append(r.entries, e)
	} else {
		r.entries[r.recorded%uint64(cap(r.entries))] = e
	}
	r.recorded++
}

// kept returns what is kept, oldest first.
func (r *errorRing) kept() []logged {
	if len(r.entries) < cap(r.entries) {
		return slices.Clone(r.entries)
	}
	at := int(r.recorded % uint64(cap(r.entries)))
	return slices.Concat(r.entries[at:], r.entries[:at])
}

// clip cuts s to at most maxMessage bytes of valid UTF-8.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// code classifies err as the diagnostic contract says: a SQLSTATE, an errno
// name, a Redis error prefix, "pool_timeout", "timeout", or nothing.
func code(err error) string {
	var sql interface{ SQLState() string }
	var errno syscall.Errno
	var redisErr redis.Error
	var network net.Error
	switch {
	case errors.Is(err, cache.ErrNoConnection), errors.Is(err, shard.ErrNoConnection):
		return "pool_timeout"
	case errors.As(err, &sql):
		return sql.SQLState()
	case errors.As(err, &errno):
		return errnoName(errno)
	case errors.As(err, &redisErr):
		return redisPrefix(redisErr.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return ""
}

// errnoName names the errnos that a network or a full machine gives.
func errnoName(e syscall.Errno) string {
	switch e {
	case syscall.ECONNREFUSED:
		return "ECONNREFUSED"
	case syscall.ECONNRESET:
		return "ECONNRESET"
	case syscall.ECONNABORTED:
		return "ECONNABORTED"
	case syscall.EPIPE:
		return "EPIPE"
	case syscall.ETIMEDOUT:
		return "ETIMEDOUT"
	case syscall.EHOSTUNREACH:
		return "EHOSTUNREACH"
	case syscall.ENETUNREACH:
		return "ENETUNREACH"
	case syscall.EADDRNOTAVAIL:
		return "EADDRNOTAVAIL"
	case syscall.EMFILE:
		return "EMFILE"
	case syscall.ENFILE:
		return "ENFILE"
	case syscall.ENOSPC:
		return "ENOSPC"
	default:
		return ""
	}
}

// redisPrefix returns the first word of a Redis error if it is all capitals, as
// in "READONLY You can't write against a read only replica.".
func redisPrefix(text string) string {
	word, _, _ := strings.Cut(text, " ")
	for i := range len(word) {
		if word[i] < 'A' || word[i] > 'Z' {
			return ""
		}
	}
	return word
}
