package cache_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/reference/cache"
)

func newLocal(t *testing.T, size int) *cache.Local {
	t.Helper()
	l, err := cache.NewLocal(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func TestLocal(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 100)
	want := func(what string, wantTaken, wantKnown bool) {
		t.Helper()
		if taken, known := l.Get("love"); taken != wantTaken || known != wantKnown {
			t.Errorf("%s: Get = %v, %v, want %v, %v", what, taken, known, wantTaken, wantKnown)
		}
	}
	fill := func(ticket cache.Ticket, taken, wantEntered bool) {
		t.Helper()
		if got := l.Fill("love", ticket, taken); got != wantEntered {
			t.Errorf("Fill with taken = %v is %v, want %v", taken, got, wantEntered)
		}
	}
	want("nothing known", false, false)
	early := l.Begin("love")
	fill(early, false, true)
	want("a look-up saw it free", false, true)
	l.SetTaken("love")
	want("registered", true, true)
	fill(early, false, false)
	want("a look-up from before the registration ends", true, true)

	early = l.Begin("love")
	l.Forget("love")
	want("released", false, false)
	fill(early, true, false)
	want("a look-up from before the release ends", false, false)

	early = l.Begin("love")
	l.SetTaken("love")
	l.Purge()
	want("purged", false, false)
	fill(early, false, false)
	want("a look-up from before the registration ends after the purge", false, false)
	fill(l.Begin("love"), true, true)
	want("a new look-up", true, true)

	if _, err := cache.NewLocal(0); err == nil {
		t.Error("NewLocal(0) succeeded")
	}
}

func TestLocalExpires(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 100)
	l.Fill("soon", l.Begin("soon"), false)
	l.Fill("late", l.Begin("late"), true)
	start := time.Now()
	eventually(t, "a free entry expires", func() bool { _, known := l.Get("soon"); return !known })
	if took := time.Since(start); took > 2*cache.LocalFreeTTL+time.Second {
		t.Errorf("a free entry lived for %s, want %s", took, cache.LocalFreeTTL)
	}
	if taken, known := l.Get("late"); !taken || !known {
		t.Errorf("a taken entry = %v, %v after %s, want it known for %s", taken, known, time.Since(start), cache.LocalTakenTTL)
	}
}

// TestLocalRace lets look-ups that saw a name free end while it is registered:
// whatever the order, the cache never says "free" afterwards.
func TestLocalRace(t *testing.T) {
	t.Parallel()
	l := newLocal(t, 10_000)
	for i := range 2000 {
		n := fmt.Sprintf("name%d", i)
		tickets := []cache.Ticket{l.Begin(n), l.Begin(n)}
		var race sync.WaitGroup
		for _, ticket := range tickets {
			race.Go(func() { l.Fill(n, ticket, false) })
		}
		race.Go(func() { l.SetTaken(n) })
		race.Wait()
		if taken, known := l.Get(n); known && !taken {
			t.Fatalf("%s is called free after its registration", n)
		}
	}
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := cache.NewReceipts("0123456789abcdef")
		if err != nil {
			t.Fatal(err)
		}
		other, err := cache.NewReceipts("another key, long enough")
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		receipt := r.Issue("love", now)
		f := func(what, receipt, name string, at time.Time, want bool) {
			t.Helper()
			if got := r.Valid(receipt, name, at); got != want {
				t.Errorf("%s: Valid(%q, %q) = %v, want %v", what, receipt, name, got, want)
			}
		}
		f("its own", receipt, "love", now, true)
		f("almost over", receipt, "love", now.Add(cache.ReceiptTTL-time.Second), true)
		f("over", receipt, "love", now.Add(cache.ReceiptTTL+time.Second), false)
		f("another name", receipt, "baby", now, false)
		f("another key", other.Issue("love", now), "love", now, false)
		f("empty", "", "love", now, false)
		f("dot", ".", "love", now, false)
		f("longer life", "z"+receipt, "love", now, false)
		f("no base64", receipt+"!", "love", now, false)
		f("cut", receipt[:len(receipt)-1], "love", now, false)
	})
	if _, err := cache.NewReceipts("short"); err == nil {
		t.Error("NewReceipts with a short key succeeded")
	}
}

func FuzzReceipt(f *testing.F) {
	r, err := cache.NewReceipts("0123456789abcdef")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("sbxz00.AAAA", "love")
	f.Add(".", "")
	f.Fuzz(func(t *testing.T, receipt, name string) {
		if r.Valid(receipt, name, time.Unix(0, 0)) {
			t.Errorf("Valid(%q, %q): a receipt was guessed", receipt, name)
		}
	})
}
