package rediscache

import (
	"slices"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// slowCall is from when on a call is slow, in seconds: what the slow log logs
// unless it is told otherwise (slowlog-log-slower-than 10000).
const slowCall = 0.01

// saving reports whether a command saves: what it takes is a fork, or the disk.
func saving(command string) bool {
	return slices.Contains([]string{"save", "bgsave", "bgrewriteaof", "sync", "psync"}, command)
}

// recordCommands records where the server's time went over the span.
func recordCommands(rec *probes.Recorder, first, last source.Info, span source.Span) {
	rec.Set("commands_rate", rate(first, last, span, "total_commands_processed"))
	rec.Set("server_cpu_share", span.PerSecond(cpu(first, last, span)).Clamp(0, 1))
	calls, spent := last.Counts("cmdstat_", "calls"), last.Counts("cmdstat_", "usec")
	if span.Duration() == 0 || len(spent) == 0 {
		facts := []string{"server_command_seconds", "slow_command_share", "slow_command_seconds"}
		if span.Duration() == 0 {
			rec.Miss(span.Delta(probes.Known(0), probes.Known(0)).Why(), facts...)
		}
		rec.Lack(source.NotInInfo, facts...)
		return
	}
	calls0, spent0 := first.Counts("cmdstat_", "calls"), first.Counts("cmdstat_", "usec")
	var n, all, worst, mean float64
	for command := range spent {
		c, s := calls[command]-calls0[command], (spent[command]-spent0[command])/1e6
		if c <= 0 || s < 0 {
			continue
		}
		n, all = n+c, all+s
		if s/c >= slowCall && s > worst && !saving(command) {
			worst, mean = s, s/c
		}
	}
	rec.Set("server_command_seconds", probes.Known(all).Over(probes.Known(n), "no commands in the window"))
	rec.Set("slow_command_share", share(worst, span))
	rec.Set("slow_command_seconds", probes.Known(mean).MootIf(mean == 0, "no command took 10 ms on average"))
}

// cpu is the CPU time that the server's main thread used over the span, in
// seconds; that of the whole process before Redis 6.2.
func cpu(first, last source.Info, span source.Span) probes.Number {
	suffix := "_main_thread"
	if _, told := last["used_cpu_user"+suffix]; !told {
		suffix = ""
	}
	return delta(first, last, span, "used_cpu_user"+suffix).Plus(delta(first, last, span, "used_cpu_sys"+suffix))
}

// share is the part of the span that so many seconds are.
func share(seconds float64, span source.Span) probes.Number {
	return span.PerSecond(probes.Known(seconds)).Clamp(0, 1)
}

// recordPersistence records how often and how long the server stood still to
// save.
func recordPersistence(rec *probes.Recorder, first, last source.Info, span source.Span) {
	forks := delta(first, last, span, "total_forks")
	took := last.Number("latest_fork_usec").Over(probes.Known(1e6), "")
	rec.Set("forks", forks)
	rec.Set("fork_seconds", took.MootIf(took.Or(1) == 0, "the server has never forked"))
	save := span.Delta(
		probes.Known(first.Counts("cmdstat_", "usec")["save"]),
		probes.Known(last.Counts("cmdstat_", "usec")["save"])).Over(probes.Known(1e6), "")
	stood := forks.Times(took).Plus(save)
	if stood.Why() != "" {
		rec.Set("persistence_share", stood)
	}
	rec.Set("persistence_share", share(stood.Or(0), span))
	// An append-only file that is off is not mentioned.
	delayed := delta(first, last, span, "aof_delayed_fsync")
	if _, told := last["aof_delayed_fsync"]; !told && last["aof_enabled"] == "0" {
		delayed = probes.Known(0)
	}
	rec.Set("delayed_fsyncs", delayed)
}
