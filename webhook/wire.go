package webhook

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"time"
)

// The wire types read what is meant and never fail on a wrong value: they stay
// empty and remember that they are bad.

type wireMessage struct {
	Version           text            `json:"version"`
	GroupKey          text            `json:"groupKey"`
	Truncated         count           `json:"truncatedAlerts"`
	Receiver          text            `json:"receiver"`
	Reason            text            `json:"notification_reason"`
	GroupLabels       pairs           `json:"groupLabels"`
	CommonLabels      pairs           `json:"commonLabels"`
	CommonAnnotations pairs           `json:"commonAnnotations"`
	Alerts            wireAlerts      `json:"alerts"`
	OrgID             json.RawMessage `json:"orgId"`
}

type wireAlert struct {
	Status       text  `json:"status"`
	Labels       pairs `json:"labels"`
	Annotations  pairs `json:"annotations"`
	StartsAt     stamp `json:"startsAt"`
	EndsAt       stamp `json:"endsAt"`
	GeneratorURL text  `json:"generatorURL"`
	Fingerprint  text  `json:"fingerprint"`
}

// wireAlerts is a list, or null. Anything else cannot be an Alertmanager
// message. An element that is no object counts as an alert of unknown status.
type wireAlerts struct {
	list    []wireAlert
	present bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *wireAlerts) UnmarshalJSON(b []byte) error {
	l.present = true
	l.list = nil // a repeated key replaces the earlier one
	switch b[0] {
	case 'n':
		return nil
	case '[':
		type plain wireAlert // without lenience for "not an object"
		var raw []lenient[plain]
		if err := json.Unmarshal(b, &raw); err != nil {
			return err
		}
		l.list = make([]wireAlert, len(raw))
		for i := range raw {
			l.list[i] = wireAlert(raw[i].v)
			if raw[i].bad {
				l.list[i] = wireAlert{Status: text{s: "not an object"}}
			}
		}
		return nil
	}
	return &DecodeError{"not-alertmanager", `"alerts" is not a list: want an Alertmanager message`}
}

// lenient is an object, or bad.
type lenient[T any] struct {
	v   T
	bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *lenient[T]) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		l.bad = true
		return nil
	}
	return json.Unmarshal(b, &l.v)
}

// text is a string; numbers and truth values become text as they are spelt.
type text struct {
	s   string
	bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	*t = text{}
	switch b[0] {
	case '"':
		if bytes.IndexByte(b, '\\') < 0 { // by far the most: nothing to undo
			t.s = string(b[1 : len(b)-1])
			return nil
		}
		return json.Unmarshal(b, &t.s)
	case '{', '[':
		t.bad = true
	case 'n':
	default:
		t.s = string(b)
	}
	return nil
}

// pairs is a map of labels or annotations. It is bad when any of it is; the
// rest is kept.
type pairs struct {
	m   map[string]string
	bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *pairs) UnmarshalJSON(b []byte) error {
	*p = pairs{}
	switch b[0] {
	case 'n':
		return nil
	case '{':
	default:
		p.bad = true
		return nil
	}
	if json.Unmarshal(b, &p.m) == nil { // by far the most: all strings
		return nil
	}
	var raw map[string]text
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	p.m = make(map[string]string, len(raw))
	for k, v := range raw {
		if v.bad {
			p.bad = true
			continue
		}
		p.m[k] = v.s
	}
	return nil
}

// stamp is a time in RFC 3339; null and the year 1 are the zero time.
type stamp struct {
	t   time.Time
	bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *stamp) UnmarshalJSON(b []byte) error {
	*s = stamp{}
	var v text
	if err := v.UnmarshalJSON(b); err != nil {
		return err
	}
	if b[0] == 'n' {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, v.s)
	if err != nil {
		s.bad = true
		return nil
	}
	if !t.IsZero() {
		s.t = t.UTC()
	}
	return nil
}

// count is a number of things, at most 2^64-1.
type count struct {
	n   uint64
	bad bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(b []byte) error {
	*c = count{}
	var v text
	if err := v.UnmarshalJSON(b); err != nil {
		return err
	}
	if b[0] == 'n' {
		return nil
	}
	// A number of digits without end would cost time that grows with its square.
	if len(v.s) > 40 {
		c.bad = true
		return nil
	}
	n, ok := new(big.Int).SetString(v.s, 10)
	switch {
	case !ok, n.Sign() < 0:
		c.bad = true
	case n.IsUint64():
		c.n = n.Uint64()
	default:
		c.n = math.MaxUint64
	}
	return nil
}
