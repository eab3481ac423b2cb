package guard_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
)

// busy returns a guard with every local check on and limits that are not
// reached, unless the caller sets others.
func busy(b *testing.B, set func(*guard.Options)) *guard.Guard {
	b.Helper()
	wide := guard.Limit{Count: 1 << 30, Per: 24 * time.Hour}
	networks, err := guard.NewNetworks(prefixes("127.0.0.0/8"), prefixes("203.0.113.0/24", "2001:db8::/32"))
	if err != nil {
		b.Fatal(err)
	}
	o := guard.Options{
		Now: time.Now, Failed: func(string, error) {}, Reputation: networks,
		Instance: wide, Check: wide, Name: wide,
	}
	set(&o)
	return newGuard(b, o)
}

// requests are 4096 requests of as many clients for as many names.
func requests() []guard.Request {
	all := make([]guard.Request, 4096)
	for i := range all {
		all[i] = guard.Request{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Name: fmt.Sprintf("name%d", i)}
	}
	return all
}

func benchmarkCheck(b *testing.B, g *guard.Guard, all []guard.Request, want guard.Outcome, after func(guard.Request)) {
	b.Helper()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r := all[i%len(all)]
		i++
		if v := g.Check(b.Context(), r); v.Outcome != want {
			b.Fatalf("Check = %+v, want %s", v, want)
		}
		after(r)
	}
}

func BenchmarkCheck(b *testing.B) {
	nothing := func(guard.Request) {}
	b.Run("pass", func(b *testing.B) {
		benchmarkCheck(b, busy(b, func(*guard.Options) {}), requests(), guard.Pass, nothing)
	})
	b.Run("pass and answered", func(b *testing.B) {
		g := busy(b, func(*guard.Options) {})
		benchmarkCheck(b, g, requests(), guard.Pass, func(r guard.Request) { g.Answered(r.Name, true) })
	})
	b.Run("banned", func(b *testing.B) {
		r := guard.Request{Addr: addr("203.0.113.9"), Name: "love"}
		benchmarkCheck(b, busy(b, func(*guard.Options) {}), []guard.Request{r}, guard.Refused, nothing)
	})
	b.Run("limited", func(b *testing.B) {
		r := guard.Request{Addr: addr("2001:db9::9"), Name: "love"}
		g := busy(b, func(o *guard.Options) { o.Check = guard.Limit{Count: 1, Per: 24 * time.Hour} })
		g.Check(b.Context(), r)
		benchmarkCheck(b, g, []guard.Request{r}, guard.Limited, nothing)
	})
	b.Run("last answer", func(b *testing.B) {
		r := guard.Request{Addr: addr("192.0.2.9"), Name: "love"}
		g := busy(b, func(o *guard.Options) { o.Name = guard.Limit{Count: 1, Per: 24 * time.Hour} })
		g.Check(b.Context(), r)
		g.Answered(r.Name, true)
		benchmarkCheck(b, g, []guard.Request{r}, guard.LastAnswer, func(r guard.Request) { g.Answered(r.Name, true) })
	})
	b.Run("flood", func(b *testing.B) { // every request from a new address for a new name
		g := busy(b, func(o *guard.Options) { o.Entries = 1 << 10 })
		r := guard.Request{Name: "love"}
		b.ReportAllocs()
		n := uint32(0)
		for b.Loop() {
			n++
			r.Addr = netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
			g.Check(b.Context(), r)
		}
	})
}

func BenchmarkCheckParallel(b *testing.B) {
	f := func(name string, all []guard.Request) {
		b.Run(name, func(b *testing.B) {
			g := busy(b, func(*guard.Options) {})
			ctx := b.Context()
			var worker atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				i := int(worker.Add(1)) * 997
				for pb.Next() {
					g.Check(ctx, all[i%len(all)])
					i++
				}
			})
		})
	}
	f("many", requests())
	f("one", requests()[:1])
}

func BenchmarkOrigin(b *testing.B) {
	o := newOrigin(b, "10.0.0.0/8", "2001:db8:ffff::/48")
	f := func(name, remote string, forwarded ...string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !o.Client(remote, forwarded).IsValid() {
					b.Fatal("no client")
				}
			}
		})
	}
	f("direct", "203.0.113.5:4711")
	f("one proxy", "10.0.0.1:4711", "198.51.100.1")
	f("three proxies", "10.0.0.1:4711", "1.1.1.1, 198.51.100.1, 10.0.0.3, 10.0.0.2")
}

func BenchmarkProofVerify(b *testing.B) {
	p := newProof(b, time.Now)
	token, answer := issue(b, p, "attempt")
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Verify(b.Context(), "attempt", token, answer); err != nil {
			b.Fatal(err)
		}
	}
}
