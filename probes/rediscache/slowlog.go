package rediscache

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// lookBack is how far back the slow log and the latency monitor are read: a
// command that holds the server up every now and then need not come in the
// window. What is older may be over.
const lookBack = 20 * time.Second

// recordSlowLog records what of the slow log is young.
func recordSlowLog(rec *probes.Recorder, s serverSample, now time.Time) {
	if s.details.SlowErr != nil {
		lack(rec, s.details.SlowErr, "slow_log_share", "slow_log_max_seconds")
		return
	}
	covered, longest := lookBack.Seconds(), 0.0
	if up, known := s.info.Number("uptime_in_seconds").Get(); known {
		covered = max(1, min(covered, up))
	}
	byCommand := map[string][]float64{}
	for _, e := range s.details.Slow {
		age := now.Sub(e.At)
		if age > lookBack || saving(e.Command) {
			continue
		}
		byCommand[e.Command] = append(byCommand[e.Command], e.Took.Seconds())
		longest = max(longest, e.Took.Seconds())
	}
	if n := len(s.details.Slow); n == source.SlowLogLength {
		// The log holds more than was read: what was read covers less time.
		covered = max(1, min(covered, now.Sub(s.details.Slow[n-1].At).Seconds()))
	}
	var rows []probes.Row
	worst := 0.0
	for command, took := range byCommand {
		part := min(1, sum(took)/covered)
		worst = max(worst, part)
		rows = append(rows, probes.Row{Table: tableSlow, Key: command, Value: part, Unit: probes.Ratio, Note: calls(took)})
	}
	addRows(rec, rows)
	rec.Set("slow_log_share", probes.Known(worst))
	rec.Set("slow_log_max_seconds", probes.Known(longest).MootIf(longest == 0, "the slow log has nothing of the last 20 s"))
}

// recordStalls records the longest stall of the disk that the latency monitor
// has seen.
func recordStalls(rec *probes.Recorder, d *source.Details, now time.Time) {
	const fact = "persistence_stall_seconds"
	if d.StallsErr != nil {
		lack(rec, d.StallsErr, fact)
		return
	}
	longest := 0.0
	for _, e := range d.Stalls {
		if now.Sub(e.At) <= lookBack && ofDisk(e.Event) {
			longest = max(longest, e.Took.Seconds())
		}
	}
	rec.Set(fact, probes.Known(longest).MootIf(longest == 0, "the latency monitor has recorded nothing of the kind (it is off unless latency-monitor-threshold is set)"))
}

// ofDisk reports whether an event of the latency monitor comes of saving.
func ofDisk(event string) bool {
	return event == "fork" || strings.HasPrefix(event, "aof-") || strings.HasPrefix(event, "rdb-")
}

func sum(v []float64) (total float64) {
	for _, x := range v {
		total += x
	}
	return total
}

// calls says how many calls took how long.
func calls(took []float64) string {
	longest := time.Duration(slices.Max(took) * float64(time.Second)).Round(time.Millisecond)
	return fmt.Sprintf("%d calls in the slow log in the last 20 s, the longest took %v", len(took), longest)
}
