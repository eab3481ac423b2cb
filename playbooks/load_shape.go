package playbooks

import "gopkg.in/yaml.v3"

// The shape of the file. Texts keep their place so that faults can be put on
// the word.
type (
	playbookFile struct {
		Name    text     `yaml:"name"`
		Title   text     `yaml:"title"`
		Timeout text     `yaml:"timeout"`
		Parts   []text   `yaml:"parts"`
		Rest    partFile `yaml:",inline"`
	}
	partFile struct {
		Steps   []*yaml.Node `yaml:"steps"`
		Causes  []*yaml.Node `yaml:"causes"`
		Healthy []*yaml.Node `yaml:"healthy"`
		Remarks []*yaml.Node `yaml:"remarks"`
	}
	stepFile struct {
		ID      text         `yaml:"id"`
		Title   text         `yaml:"title"`
		Probe   text         `yaml:"probe"`
		Timeout text         `yaml:"timeout"`
		With    *yaml.Node   `yaml:"with"`
		Rules   []*yaml.Node `yaml:"rules"`
	}
	ruleFile struct {
		Status  text `yaml:"status"`
		When    text `yaml:"when"`
		Because text `yaml:"because"`
		Summary text `yaml:"summary"`
	}
	causeFile struct {
		ID       text         `yaml:"id"`
		Title    text         `yaml:"title"`
		Headline text         `yaml:"headline"`
		Summary  text         `yaml:"summary"`
		Layer    text         `yaml:"layer"`
		Affects  []text       `yaml:"affects"`
		When     []*yaml.Node `yaml:"when"`
		Signals  []*yaml.Node `yaml:"signals"`
		Against  []*yaml.Node `yaml:"against"`
		Limits   []*yaml.Node `yaml:"limits"`
		Explains []*yaml.Node `yaml:"explains"`
		Actions  []text       `yaml:"actions"`
		Lasting  []text       `yaml:"lasting"`
		About    text         `yaml:"about"`
		Looks    text         `yaml:"looks"`
		// MistakenFor is a mapping from cause to check, in order.
		MistakenFor *yaml.Node `yaml:"mistaken_for"`
		Source      text       `yaml:"source"`
	}
	// Clauses are a text, the condition, or one of these.
	whenFile struct {
		When text `yaml:"when"`
		Else text `yaml:"else"`
	}
	againstFile struct {
		When    text `yaml:"when"`
		Because text `yaml:"because"`
	}
	// An effect is a text, the cause, or one of these.
	effectFile struct {
		Cause text `yaml:"cause"`
		When  text `yaml:"when"`
	}
	remarkFile struct {
		When text `yaml:"when"`
		Say  text `yaml:"say"`
	}
	limitFile struct {
		AtMost  text `yaml:"at_most"`
		Unless  text `yaml:"unless"`
		Because text `yaml:"because"`
	}
	signalFile struct {
		When     text     `yaml:"when"`
		Weight   *float64 `yaml:"weight"`
		Expected text     `yaml:"expected"`
	}
)
