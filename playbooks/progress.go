package playbooks

import (
	"slices"
	"sync"
	"time"
)

// progressEvery is the time between two words on a run that goes on. Most runs are
// over before the first.
const progressEvery = time.Second

// progress gathers what a run has measured so far, for those who wait for its
// report.
type progress struct {
	tell func([]Finding)
	stop chan struct{}

	mu   sync.Mutex
	seen []Measurement
}

// follow has tell called with the findings so far, whenever there are more, until
// end; the last call may still be under way then. A nil tell wants to know nothing.
func follow(p *Playbook, tell func([]Finding)) *progress {
	if tell == nil {
		return nil
	}
	f := &progress{tell: tell, stop: make(chan struct{})}
	go f.run(p)
	return f
}

func (f *progress) run(p *Playbook) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for told := 0; ; {
		select {
		case <-tick.C:
		case <-f.stop:
			return
		}
		f.mu.Lock()
		seen := slices.Clone(f.seen)
		f.mu.Unlock()
		if len(seen) == told {
			continue
		}
		told = len(seen)
		// Judged as if nothing more were known: that is true.
		f.tell(slices.DeleteFunc(Judge(p, seen).Findings, func(x Finding) bool {
			return !slices.ContainsFunc(seen, func(m Measurement) bool { return m.Step == x.Step })
		}))
	}
}

// add takes a measurement down.
func (f *progress) add(m Measurement) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, m)
}

func (f *progress) end() {
	if f != nil {
		close(f.stop)
	}
}
