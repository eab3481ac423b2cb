package playbooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/regpath/diagnose/probes"
)

// ReadReport reads a report from its JSON. Fields that it does not know, as of
// a later version, are passed over.
func ReadReport(data []byte) (Report, error) {
	var r Report
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&r); err != nil {
		return Report{}, errors.New("not a report: " + unreadable(data, err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Report{}, errors.New("not a report: something follows it")
	}
	if r.Playbook == "" || r.Findings == nil {
		return Report{}, errors.New("not a report: playbook or findings are missing")
	}
	return r, nil
}

// unreadable says why data cannot be read as JSON of a report.
func unreadable(data []byte, err error) string {
	line := func(offset int64) int {
		return 1 + bytes.Count(data[:min(int(offset), len(data))], []byte("\n"))
	}
	if errors.Is(err, io.EOF) {
		return "it is empty"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it breaks off"
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("line %d is not JSON", line(e.Offset))
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("line %d: %s is of the wrong type: %s", line(e.Offset), cmp.Or(e.Field, "all of it"), e.Value)
	}
	return err.Error()
}

// Measurements returns what the report was judged from, as [Judge] takes it.
func (r Report) Measurements() []Measurement {
	ms := make([]Measurement, 0, len(r.Findings)+len(r.Unjudged))
	for _, f := range r.Findings {
		ms = append(ms, Measurement{
			Step: f.Step, Err: f.Error, TookMS: f.TookMS,
			Evidence: probes.Evidence{
				Source: f.Source, At: f.At, Window: f.Window, Facts: f.Facts, Rows: f.Rows, Missing: f.Missing, Cost: f.Cost,
			},
		})
	}
	return append(ms, r.Unjudged...)
}

// Replay judges again, by p, what a recorded report was judged from. What the
// run was (its id, target, trigger and times) stays. A report that p made is
// repeated to the byte; of another playbook or of an older version of p, steps
// and facts that p does not know are gaps.
func Replay(p *Playbook, recorded Report) Report {
	r := Judge(p, recorded.Measurements())
	r.ID, r.Target, r.Trigger = recorded.ID, recorded.Target, recorded.Trigger
	r.StartedAt, r.DurationMS = recorded.StartedAt, recorded.DurationMS
	return r
}
