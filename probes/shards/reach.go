package shards

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// answer is what a shard said to the agent itself.
type answer struct {
	shard string
	took  time.Duration
	err   error
}

// pingAll asks all shards at once, so that several dead ones cost the time of
// one.
func (p *probe) pingAll(ctx context.Context, rec *probes.Recorder) []answer {
	answers := make([]answer, len(p.dbs))
	costs := make([]probes.Cost, len(p.dbs))
	var wg sync.WaitGroup
	for i, db := range p.dbs {
		wg.Go(func() {
			took, err := db.Ping(ctx, &costs[i])
			answers[i] = answer{shard: db.Name(), took: took, err: err}
		})
	}
	wg.Wait()
	for _, c := range costs {
		*rec.Cost() = rec.Cost().Plus(c)
	}
	return answers
}

// recordReach records how many shards are dead. When none is seen dead, but
// not all could be asked, the number is unknown rather than 0.
func recordReach(rec *probes.Recorder, answers []answer) {
	if len(answers) == 0 {
		rec.Miss("no Postgres shard is configured: set their DSNs to ask them directly", "unreachable")
		return
	}
	dead, unasked := 0, ""
	for _, a := range answers {
		switch {
		case source.Dead(a.err):
			dead++
		case a.err != nil && unasked == "":
			unasked = fmt.Sprintf("%s: %v", a.shard, a.err)
		}
	}
	rec.Set("unreachable", probes.Known(float64(dead)).If(dead > 0 || unasked == "", unasked))
}

// note says how the shard answered the agent; empty when it was not asked.
func note(answers []answer, shard string) string {
	for _, a := range answers {
		if a.shard != shard {
			continue
		}
		if a.err != nil {
			return "agent: " + a.err.Error()
		}
		return "agent: select 1 in " + milliseconds(a.took.Seconds())
	}
	return ""
}

// reachRows lists the shards by what they said to the agent, when the service
// tells nothing about them.
func reachRows(rec *probes.Recorder, answers []answer) {
	for _, a := range answers[:min(len(answers), maxShardRows)] {
		row := probes.Row{Table: "shards", Key: clip(a.shard), Unit: probes.Bool, Note: note(answers, a.shard)}
		if a.err == nil {
			row.Value = 1
		}
		rec.Row(row)
	}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }
