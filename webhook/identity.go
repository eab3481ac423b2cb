package webhook

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// groupID identifies a group of alerts.
type groupID struct {
	// key is the group as the sender knows it. It changes when the matchers of
	// the route change in the sender's configuration.
	key string
	// route is receiver and group labels. It outlives such a change, but two
	// groups may share it: only together with a common alert does it tell that
	// two keys mean the same group.
	route string
}

// group returns the identity of the message's group.
func (m *Message) group() groupID {
	if m.pipe {
		return pipeGroup()
	}
	route := digest("route", receiverName(m.Receiver), labelText(m.GroupLabels))
	switch {
	case m.GroupKey != "":
		return groupID{key: digest("group", m.GroupKey), route: route}
	case m.unnamed():
		alerts := fingerprints(m)
		slices.Sort(alerts)
		return groupID{key: digest(append(slices.Compact(alerts), route)...), route: route}
	}
	return groupID{key: route, route: route}
}

// unnamed reports whether nothing but the alerts tells the group from others of its
// receiver: two such groups are the same trouble only where they have an alert in common.
func (m *Message) unnamed() bool { return m.GroupKey == "" && len(m.GroupLabels) == 0 }

// receiverName undoes the regular expression quoting that Alertmanager applies
// to the receiver, so that "team.sre" and `team\.sre` are one receiver.
func receiverName(s string) string {
	const special = `\.+*?()|[]{}^$`
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(special, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// fingerprint is what Alertmanager itself computes over the labels, in the same
// spelling.
func fingerprint(labels map[string]string) string {
	set := make(model.LabelSet, len(labels))
	for k, v := range labels {
		if v != "" {
			set[model.LabelName(k)] = model.LabelValue(v)
		}
	}
	return set.Fingerprint().String()
}

// labelText spells labels in one way only.
func labelText(labels map[string]string) string {
	b, err := json.Marshal(labels) // sorts the names, quotes all it must
	if err != nil || len(labels) == 0 {
		return "{}"
	}
	return string(b)
}

// digest joins parts so that no two lists of parts come out the same.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		sum := sha256.Sum256([]byte(p))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// incidentID makes a name for an episode: when it was opened, for people, and 40
// bits of chance. It is safe in file names and URLs.
func incidentID(opened time.Time) string {
	return opened.UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:8])
}

// title names the trouble in a few words; it is never empty.
func (m *Message) title() string {
	if s := storable(m.label("alertname"), 300); s != "" {
		return s
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m.GroupLabels)) {
		parts = append(parts, k+"="+m.GroupLabels[k])
	}
	return cmp.Or(storable(strings.Join(parts, " "), 300), "unnamed alert")
}

// label returns a label of the group, else one that all alerts share, else that
// of the first alert that has it, firing ones first.
func (m *Message) label(name string) string {
	if v := m.GroupLabels[name]; v != "" {
		return v
	}
	if v := m.CommonLabels[name]; v != "" {
		return v
	}
	for _, firing := range []bool{true, false} {
		for _, a := range m.Alerts {
			if v := a.Labels[name]; a.Firing == firing && v != "" {
				return v
			}
		}
	}
	return ""
}
