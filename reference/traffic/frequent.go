package traffic

import "net/netip"

// maxFrequent is how many addresses are counted at a time: every one with more
// than 1/2000 of the requests is among them.
const maxFrequent = 2000

// frequent finds the addresses that most requests come from, in bounded memory:
// the algorithm of Misra and Gries (Finding repeated elements, 1982). The true
// count of an address lies in [count, count+lost]. It is not safe for concurrent
// use.
type frequent struct {
	counts map[netip.Addr]uint64
	lost   uint64
	total  uint64
}

func newFrequent() *frequent { return &frequent{counts: make(map[netip.Addr]uint64, maxFrequent)} }

func (f *frequent) add(a netip.Addr) {
	f.total++
	if _, known := f.counts[a]; known || len(f.counts) < maxFrequent {
		f.counts[a]++
		return
	}
	// One less for everybody, the newcomer included: this takes maxFrequent away
	// from what maxFrequent adds have brought, so that an add costs O(1).
	f.lost++
	for k, n := range f.counts {
		if n == 1 {
			delete(f.counts, k)
		} else {
			f.counts[k] = n - 1
		}
	}
}

func (f *frequent) reset() {
	clear(f.counts)
	f.lost, f.total = 0, 0
}
