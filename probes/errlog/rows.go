package errlog

import (
	"fmt"
	"strings"
	"time"

	"github.com/regpath/diagnose/probes"
)

const (
	maxRows     = 10
	maxTemplate = 160
)

// rows lists the kinds of errors, those that changed most first.
func (v *view) rows(rec *probes.Recorder) {
	for _, k := range v.kinds[:min(len(v.kinds), maxRows)] {
		rec.Row(probes.Row{
			Table: "errors", Key: clip(k.template.text(), maxTemplate),
			Value: float64(k.latest), Note: strings.Join(v.notes(k), ", "),
		})
	}
}

func (v *view) notes(k *kind) []string {
	notes := []string{"layer " + k.template.group.layer}
	if code := k.template.group.code; code != "" {
		notes = append(notes, "code "+code)
	}
	if k.target != "" && !k.manyTarget {
		target := k.target
		if !token.MatchString(target) {
			target = clip(mask(clip(target, maxMessage)), maxValue)
		}
		notes = append(notes, "target "+target)
	}
	notes = append(notes, "first "+ago(v.now.Sub(k.first)), "last "+ago(v.now.Sub(k.last)))
	switch {
	case k.truncated:
		notes = append(notes, "new or far more than before (older errors are dropped)")
	case k.newness == fresh:
		notes = append(notes, "new")
	case k.newness == unclear:
		notes = append(notes, "baseline unknown")
	default:
		notes = append(notes, fmt.Sprintf("×%.1f of baseline", float64(k.latest)/float64(k.before)))
	}
	return notes
}

func ago(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if d < 10*time.Second {
		return d.Round(100*time.Millisecond).String() + " ago"
	}
	return d.Round(time.Second).String() + " ago"
}
