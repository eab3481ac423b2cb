package fault

import (
	"context"
	"hash/fnv"
	"strings"

	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/name"
)

const (
	// tornEvery is of how many names one loses its bits: far more than the one in
	// 80,000 of a library without a lock, so that minutes show it.
	tornEvery = 8
	// clippedTo is how much of a name is kept: less than most names have.
	clippedTo = 10
)

// writers are the mistakes of those who enter names in the filter. None of them
// needs a recorded change: the writer was deployed elsewhere. When one ends, the
// filter is built anew, for it lacks what was registered meanwhile.
func writers(p Patient) []Fault {
	mistake := func(name, help string, m func() bloom.Mistake) Fault {
		return Fault{
			Name: name, Help: help,
			On: func(context.Context) error { p.Service.Filter.SetMistake(m()); return nil },
			Off: func(ctx context.Context) error {
				p.Service.Filter.SetMistake(nil)
				return p.Service.ForceFilter(ctx, p.Service.Filter.Params())
			},
		}
	}
	return []Fault{
		mistake("filter-other-spelling", "registrations are entered in the filter in capitals, which nobody asks for", otherSpelling),
		mistake("filter-other-class", "registrations of names with punctuation are entered in the filter without it", otherClass),
		mistake("filter-drops-adds", "registrations do not reach the filter any more", dropsAdds),
		mistake("filter-tears-adds", "some registrations lose their bits in the filter, as writers without a lock do", tearsAdds),
	}
}

func otherSpelling() bloom.Mistake {
	return func(n string) (string, bloom.Fate) { return strings.ToUpper(n), bloom.Entered }
}

func otherClass() bloom.Mistake {
	return func(n string) (string, bloom.Fate) {
		if name.ClassOf(n) != name.Punctuation {
			return n, bloom.Entered
		}
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("_.-", r) {
				return -1
			}
			return r
		}, n), bloom.Entered
	}
}

func dropsAdds() bloom.Mistake {
	return func(n string) (string, bloom.Fate) { return n, bloom.Dropped }
}

func tearsAdds() bloom.Mistake {
	return func(n string) (string, bloom.Fate) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(n))     // never fails
		if h.Sum32()%tornEvery == 0 { // the same names each time: the news of a registration comes more than once
			return n, bloom.Torn
		}
		return n, bloom.Entered
	}
}

// clippedNames lets different names become one.
func clippedNames(p Patient) Fault {
	return Fault{
		Name: "clipped-names", Help: "the canonical form keeps the first 10 characters of a name only, so that many become one",
		On:  func(context.Context) error { p.Service.SetClip(clippedTo); return nil },
		Off: func(context.Context) error { p.Service.SetClip(0); return nil },
	}
}
