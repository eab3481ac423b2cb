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
	// Healthy must all hold for a service to be called healthy: vital signs. The
	// words of each say why it is not if it does not hold.
	Healthy []Clause
	// Remarks say something more of a service that is not healthy when they hold.
	Remarks []Clause

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

	tables []string
	probe  probes.Probe
	guard  *guard
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
	// Headline is the title with the names of the thing and the place; nil, or
	// not used, where these are not known.
	Headline *Template
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
	// Limits hold the confidence down.
	Limits []Limit
	// Explains holds the causes that follow from this one.
	Explains []Effect
	// Actions say what to do now, most urgent first; one that comes to nothing is
	// left out.
	Actions []*Template
	// Lasting says what to do so that it does not come back.
	Lasting []string
	// About says what the cause is, Looks how it shows, for the page about it.
	About, Looks string
	MistakenFor  []Lookalike
	// Source says where the thresholds come from.
	Source string

	place string // file:line
}

// Effect is a cause that follows from another one.
type Effect struct {
	ID string
	// When is nil where it always does. It does not where the condition is known
	// not to hold: then both stand side by side.
	When *Condition
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

// Limit holds the confidence of a hypothesis down unless a condition holds. One
// held down to low is a mere note: it is no root beside a cause that is none.
type Limit struct {
	AtMost Confidence
	Unless *Condition
	// Because says for a human why it is held down.
	Because *Template
}

// Indication is a weighted signal of a hypothesis.
type Indication struct {
	When   *Condition
	Weight float64
	// Expected is what a healthy value of the first fact looks like, for a
	// human; empty where the probe's own documentation says it.
	Expected string
}
