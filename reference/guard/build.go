package guard

import (
	"fmt"
	"time"
)

func (o Options) withDefaults() Options {
	if o.Entries == 0 {
		o.Entries = DefaultEntries
	}
	if o.Reputation == nil {
		o.Reputation = &Networks{}
	}
	o.Instance = o.Instance.or(1000, time.Second)
	o.Check = o.Check.or(60, time.Minute)
	o.Attempt = o.Attempt.or(30, time.Minute)
	o.Register = o.Register.or(10, time.Minute)
	o.Name = o.Name.or(100, time.Second)
	return o
}

// builder makes the checks that options ask for, nil for those that are
// switched off, and collects what is wrong with them.
type builder struct {
	Options

	start time.Time
	errs  []error
}

func (b *builder) address(l Limit) Checker {
	if t := b.table(l); t != nil {
		return addressLimit{t}
	}
	return nil
}

func (b *builder) names() Checker {
	if t := b.table(b.Name); t != nil {
		return &nameLimit{t}
	}
	return nil
}

func (b *builder) table(l Limit) *table {
	if b.bad(l.validate()) || l.off() {
		return nil
	}
	t, err := newTable(l, b.Entries, b.start)
	b.bad(err)
	return t
}

func (b *builder) instance() Checker {
	if b.bad(b.Instance.validate()) || b.Instance.off() {
		return nil
	}
	return newInstanceLimit(b.Instance, b.start)
}

func (b *builder) captcha() Checker {
	if b.Captcha == nil {
		return nil
	}
	return captchaCheck{b.Captcha}
}

func (b *builder) ask() Checker {
	if b.Gate == nil {
		return nil
	}
	return askCheck{b.Gate}
}

func (b *builder) gate() Checker {
	if b.Gate == nil {
		return nil
	}
	return gateCheck{b.Gate}
}

func (b *builder) bad(err error) bool {
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("guard: %w", err))
	}
	return err != nil
}
