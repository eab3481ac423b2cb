package shards

import (
	"context"
	"errors"
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

// ping asks all shards at once, so that several dead ones cost the time of
// one. Of shards that were asked before, those that failed are left alone, and
// the worse answer of the others counts: a shard may die between the samples.
func (p *probe) ping(ctx context.Context, rec *probes.Recorder, before []answer) []answer {
	answers := make([]answer, len(p.dbs))
	costs := make([]probes.Cost, len(p.dbs))
	var wg sync.WaitGroup
	for i, db := range p.dbs {
		if before != nil && before[i].err != nil {
			answers[i] = before[i]
			continue
		}
		wg.Go(func() {
			took, err := db.Ping(ctx, &costs[i])
			answers[i] = answer{shard: db.Name(), took: took, err: err}
			if before != nil && (errors.Is(err, source.ErrInterrupted) || err == nil && before[i].took > took) {
				answers[i] = before[i] // the run ended, which says nothing about the shard
			}
		})
	}
	wg.Wait()
	for _, c := range costs {
		*rec.Cost() = rec.Cost().Plus(c)
	}
	return answers
}

// recordReach records how many shards are dead, and the round trip to the
// slowest. When none is seen dead, but not all could be asked, the number is
// unknown rather than 0.
func recordReach(rec *probes.Recorder, answers []answer) {
	if len(answers) == 0 {
		rec.Lack("no Postgres shard is configured: set their DSNs to ask them directly", agentFacts...)
		return
	}
	dead, unasked := 0, ""
	slowest := probes.Known(0)
	for _, a := range answers {
		took := probes.Known(a.took.Seconds())
		if a.err != nil {
			took = probes.Unknown(fmt.Sprintf("%s: %v", a.shard, a.err))
		}
		slowest = slowest.Higher(took)
		switch {
		case source.Dead(a.err):
			dead++
		case a.err != nil && unasked == "":
			unasked = fmt.Sprintf("%s: %v", a.shard, a.err)
		}
	}
	rec.Set("ping_seconds", slowest)
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
		row := probes.Row{Table: tableShards, Key: clip(a.shard), Unit: probes.Bool, Note: note(answers, a.shard)}
		if a.err == nil {
			row.Value = 1
		}
		rec.Row(row)
	}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }
