package playbooks

import "fmt"

// Coverage notes what of a playbook its tests have reached.
type Coverage struct {
	playbook *Playbook
	causes   map[string]bool
	rules    map[*Rule]bool
}

// NewCoverage returns the coverage of no test at all.
func NewCoverage(p *Playbook) *Coverage {
	return &Coverage{playbook: p, causes: map[string]bool{}, rules: map[*Rule]bool{}}
}

// Add notes what a test with these measurements reaches: the causes that are
// matched, and the rules that give a step its status.
func (c *Coverage) Add(ms []Measurement) {
	s, err := observe(c.playbook, ms)
	if err != nil {
		return
	}
	for i, step := range c.playbook.Steps {
		if s.steps[i].blind != "" {
			continue
		}
		if rule, opened := decide(step, s); rule != nil && rule.certain(opened) {
			c.rules[rule] = true
		}
	}
	for _, h := range c.playbook.Causes {
		if weigh(h, s).state == matched {
			c.causes[h.ID] = true
		}
	}
}

// Missed says, a line each, what no test has reached.
func (c *Coverage) Missed() []string {
	var missed []string
	for _, step := range c.playbook.Steps {
		for i := range step.Rules {
			rule := &step.Rules[i]
			if c.rules[rule] {
				continue
			}
			when := "without a condition"
			if rule.When != nil {
				when = "when " + rule.When.Text
			}
			missed = append(missed, fmt.Sprintf("%s: step %s, rules[%d], %s %s", rule.place, step.ID, i, rule.Status, when))
		}
	}
	for _, h := range c.playbook.Causes {
		if !c.causes[h.ID] {
			missed = append(missed, fmt.Sprintf("%s: cause %s", h.place, h.ID))
		}
	}
	return missed
}
