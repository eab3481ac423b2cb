package playbooks

import (
	"time"

	"github.com/regpath/diagnose/probes"
)

// Playbook is a loaded and checked playbook, its probes bound. It does not
// change and may be judged and run from several goroutines.
type Playbook struct {
	Name  string
	Title string
	// Timeout bounds a whole run, the judging included.
	Timeout time.Duration
	Steps   []*Step
	// Causes are the hypotheses, in the order of the file.
	Causes []*Hypothesis

	vocabulary *vocabulary
	index      map[string]int // step id to its place in Steps
}

// Step is one look at one layer.
type Step struct {
	ID    string
	Title string
	// Kind is the name of the kind of probe in the catalog.
	Kind string
	// Timeout bounds the step's probe.
	Timeout time.Duration
	// Facts documents what the probe can return.
	Facts []probes.FactDoc
	// Rules are ordered; the first whose condition holds gives the status.
	Rules []Rule

	probe probes.Probe
	guard *guard
}

// Rule gives a step its status.
type Rule struct {
	Status Status
	// When is nil for the rule that always holds.
	When *Condition
	// Because says for a human why the rule holds; nil where the condition itself
	// must do.
	Because *Template
	// Summary is what to tell a human, with the values filled in.
	Summary *Template

	place string // file:line
}

// Hypothesis is a cause that a playbook knows of. A [Cause] is one that was
// found to be so.
type Hypothesis struct {
	ID    string
	Title string
	// Summary is the sentence that opens the report when this is the root.
	Summary *Template
	// Layer is the step in which the cause lies.
	Layer string
	// Affects holds further steps whose trouble the cause accounts for.
	Affects []string
	// When must all hold; the words of each say why the cause is ruled out when
	// it does not.
	When []Clause
	// Signals speak for the cause when they hold, and against it when not.
	Signals []Indication
	// Against refutes the cause when any of them holds; the words of each say
	// why.
	Against []Clause
	// Explains holds the ids of the causes that follow from this one.
	Explains []string
	// Actions say what to do now, most urgent first, and Lasting what to do so
	// that it does not come back.
	Actions, Lasting []string
	// About says what the cause is, Looks how it shows, for the page about it.
	About, Looks string
	MistakenFor  []Lookalike
	// Source says where the thresholds come from.
	Source string

	place string // file:line
}

// Lookalike is another cause that a cause is mistaken for.
type Lookalike struct {
	ID string
	// Check says what tells the two apart.
	Check string
}

// Clause is a condition with words for a human.
type Clause struct {
	*Condition

	// Words is nil where the condition itself must do.
	Words *Template
}

// Indication is a weighted signal of a hypothesis.
type Indication struct {
	When   *Condition
	Weight float64
	// Expected is what a healthy value of the first fact looks like, for a
	// human; empty where the probe's own documentation says it.
	Expected string
}
