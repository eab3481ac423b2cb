package playbooks

import (
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
)

// Incident is why a run happens: an episode of alerts, or an engineer asking.
type Incident struct {
	// ID is stable over retries and restarts, and safe in file names and URLs.
	ID string `json:"id"`
	// Trigger is "alertmanager" or "manual".
	Trigger string `json:"trigger"`
	Title   string `json:"title"`
	// Severity is as the alert spelt it; empty when unknown.
	Severity string `json:"severity,omitempty"`
	Playbook string `json:"playbook,omitempty"`
	Target   string `json:"target,omitempty"`
	// StartedAt is when the trouble began: the earliest startsAt of the alerts.
	StartedAt time.Time `json:"started_at"`
	// ResolvedAt is zero while the incident is open.
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	Alerts     []Alert   `json:"alerts,omitempty"`
	// HiddenAlerts counts the alerts that are not in Alerts: cut off by the sender
	// (max_alerts), or beyond what the store keeps.
	HiddenAlerts uint64 `json:"hidden_alerts,omitempty"`
	// HeardAt is when the agent first heard of the present episode.
	HeardAt time.Time `json:"heard_at,omitzero"`
	// Episode counts how often the alerts have fired, with a pause between, since
	// the incident was first opened: 1 the first time, and 0 where nobody counts.
	Episode int `json:"episode,omitempty"`
	// EpisodesToday counts those of the last 24 hours, this one and those of
	// earlier incidents of the same group included.
	EpisodesToday int `json:"episodes_today,omitempty"`
	// Stale says that ResolvedAt is when the incident was given up: nobody has said
	// that it is over, but it is not heard of any more.
	Stale bool `json:"stale,omitempty"`
}

// Alert is one alert of an incident. All strings are untrusted.
type Alert struct {
	Fingerprint string            `json:"fingerprint"`
	Firing      bool              `json:"firing"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"starts_at,omitzero"`
	// EndsAt is zero while the alert fires.
	EndsAt       time.Time `json:"ends_at,omitzero"`
	GeneratorURL string    `json:"generator_url,omitempty"`
}

// Status is the state of one layer, as its step's rules saw it.
type Status int

// The states, from "could not be told" upwards. Unknown is the zero value: a
// step that was not judged is not fine.
const (
	Unknown Status = iota
	OK
	Warning
	Critical
)

// String returns the status in lower case.
func (s Status) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case OK:
		return "ok"
	case Warning:
		return "warning"
	case Critical:
		return "critical"
	}
	return fmt.Sprintf("status(%d)", int(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(b []byte) error {
	for _, c := range []Status{Unknown, OK, Warning, Critical} {
		if c.String() == string(b) {
			*s = c
			return nil
		}
	}
	return fmt.Errorf("unknown status %q: want ok, warning, critical or unknown", b)
}

// Verdict is the outcome of a run.
type Verdict string

// The verdicts.
const (
	CauseFound   Verdict = "cause-found"
	Healthy      Verdict = "healthy"
	Inconclusive Verdict = "inconclusive"
)

// Role tells a root cause from what follows from it, and from what is only worth
// a note beside it.
type Role string

// The roles.
const (
	Root        Role = "root"
	Consequence Role = "consequence"
	// Note is a cause that its limits hold down to low beside one that is not.
	Note Role = "note"
)

// Confidence says how far a cause is backed; see the package documentation for
// the function that computes it.
type Confidence string

// The levels of confidence.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// Measurement is what the runner hands to the judge: what one step's probe
// returned.
type Measurement struct {
	Step     string          `json:"step"`
	Evidence probes.Evidence `json:"evidence"`
	// Err says why nothing could be measured; empty otherwise. Evidence.Facts,
	// Rows and Missing then do not count.
	Err string `json:"error,omitempty"`
	// TookMS is how long the probe ran, in milliseconds.
	TookMS int64 `json:"took_ms"`
}

// Finding is a judged measurement: the measurement whole, so that it can be
// judged again, and what it came to.
type Finding struct {
	Step   string `json:"step"`
	Title  string `json:"title"`
	Status Status `json:"status"`
	// Summary is one sentence for a human.
	Summary string `json:"summary"`
	// Because says for a human what decided the status, or is the condition.
	// Empty when no rule matched.
	Because string `json:"because,omitempty"`
	// Condition is what decided the status, with its values filled in:
	// "bloom.fill_ratio (0.97) > 0.5".
	Condition string           `json:"condition,omitempty"`
	Source    string           `json:"source"`
	At        time.Time        `json:"at,omitzero"`
	Window    time.Duration    `json:"window_ns,omitempty"`
	Facts     []probes.Fact    `json:"facts"`
	Rows      []probes.Row     `json:"rows,omitempty"`
	Missing   []probes.Missing `json:"missing,omitempty"`
	// NotLookedAt says that there was nothing to look at, as nothing of the kind is
	// configured: the status is unknown then, and no reason to worry.
	NotLookedAt bool `json:"not_looked_at,omitempty"`
	// Error says why nothing was measured; empty if something was.
	Error  string      `json:"error,omitempty"`
	Cost   probes.Cost `json:"cost"`
	TookMS int64       `json:"took_ms"`
}

// Observation is a fact that speaks for a cause.
type Observation struct {
	// Fact is the full name: "bloom.fill_ratio".
	Fact     string           `json:"fact"`
	Value    float64          `json:"value"`
	Unit     probes.Unit      `json:"unit"`
	Interval *probes.Interval `json:"interval,omitempty"`
	// Expected is what a healthy value looks like, for a human.
	Expected string    `json:"expected"`
	Source   string    `json:"source"`
	At       time.Time `json:"at"`
	// Onset says since when the value is what it is, where it was recorded and moved.
	Onset *probes.Onset `json:"onset,omitempty"`
}

// Signal is one condition of a cause, evaluated.
type Signal struct {
	// Condition has its values filled in: "redis.pool_pending (12) > 0".
	Condition string  `json:"condition"`
	Weight    float64 `json:"weight"`
}

// Cause is a matched cause.
type Cause struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Summary is the cause in one sentence, with its values.
	Summary    string     `json:"summary"`
	Role       Role       `json:"role"`
	Confidence Confidence `json:"confidence"`
	// Since is when the first of its evidence moved; zero where none is known to have.
	Since time.Time `json:"since,omitzero"`
	// Caveats say why the confidence is no higher, where the playbook limits it.
	Caveats  []string      `json:"caveats,omitempty"`
	Evidence []Observation `json:"evidence"`
	// Explains holds the ids of the matched causes that follow from this one.
	Explains []string `json:"explains"`
	// Actions say what to do now, Lasting what to do so that it does not come
	// back.
	Actions  []string `json:"actions"`
	Lasting  []string `json:"lasting,omitempty"`
	Agree    []Signal `json:"agree,omitempty"`
	Disagree []Signal `json:"disagree,omitempty"`
	Unknown  []Signal `json:"unknown,omitempty"`
}

// RuledOut is a cause that was looked at and refuted.
type RuledOut struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Because says for a human what refuted it, or is the condition.
	Because string `json:"because"`
	// Condition is what refuted it, with its values filled in.
	Condition string `json:"condition"`
}

// Gap is something that could not be looked at.
type Gap struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
	// Facts lists the facts that are unknown for it; empty means the whole step.
	Facts []string `json:"facts,omitempty"`
	// NoEffect says that no condition was left open for want of these facts, so
	// that they would not have changed what was found.
	NoEffect bool `json:"no_effect,omitempty"`
}

// Trigger says in a report why the run happened.
type Trigger struct {
	// Kind is "alertmanager" or "manual".
	Kind     string `json:"kind"`
	Incident string `json:"incident,omitempty"`
	Title    string `json:"title,omitempty"`
	Severity string `json:"severity,omitempty"`
	// StartedAt is when the trouble began; zero for a manual run.
	StartedAt time.Time `json:"started_at,omitzero"`
}

// Report is the outcome of a run. Causes[0], if any, is a root. It holds all
// that it was judged from: written down, it is a recording that [Replay] can
// judge again.
type Report struct {
	ID         string     `json:"id"`
	Playbook   string     `json:"playbook"`
	Target     string     `json:"target,omitempty"`
	Trigger    Trigger    `json:"trigger"`
	StartedAt  time.Time  `json:"started_at"`
	DurationMS int64      `json:"duration_ms"`
	Verdict    Verdict    `json:"verdict"`
	Summary    string     `json:"summary"`
	Causes     []Cause    `json:"causes"`
	RuledOut   []RuledOut `json:"ruled_out"`
	Gaps       []Gap      `json:"gaps"`
	Findings   []Finding  `json:"findings"`
	// Unjudged holds measurements of steps that the playbook does not have, as
	// when a recording is judged by another one.
	Unjudged []Measurement `json:"unjudged,omitempty"`
	Cost     probes.Cost   `json:"cost"`
}
