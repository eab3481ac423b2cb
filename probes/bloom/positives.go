package bloom

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// tableNames has the shards whose names the filter lacks, or that could not
	// be asked.
	tableNames = "existing names"
	// tableGroups has the kinds of names of which the filter lacks some, the one
	// that stands out most first.
	tableGroups = "name groups"
	// maxRows bounds each table.
	maxRows = 16
	// minGroup is how many names of a group, and outside it, it takes to compare
	// them: if half of all names of a kind are missing, fewer than 5 of 20 are
	// with a probability below 1 %.
	minGroup = 20
)

// positiveFacts are the facts that rest on existing names.
func positiveFacts() []string {
	return []string{
		"positives_tested", "positives_missing", "latest_tested", "latest_missing",
		"group_tested", "group_missing_share", "group_known_after", "others_missing_share",
	}
}

// positives records whether the filter knows names that exist.
func (p *probe) positives(ctx context.Context, rec *probes.Recorder) {
	query := url.Values{"n": {strconv.Itoa(p.options.Positives)}, "min_age": {p.options.MinAge.String()}}
	var doc source.BloomVerify
	if err := p.api.Get(ctx, rec.Cost(), source.PathBloomVerify, query, &doc); err != nil {
		rec.Miss(err.Error(), positiveFacts()...)
		return
	}
	blind := shardRows(rec, doc)
	rec.Set("positives_tested", doc.Sampled)
	missing := doc.Missing.If(doc.Sampled.Or(0) > 0, blind)
	rec.Set("positives_missing", missing.If(missing.Or(0) <= doc.Sampled.Or(0), "missing is larger than sampled"))
	latest := doc.Latest
	rec.Set("latest_tested", latest.Sampled)
	rec.Set("latest_missing", latest.Missing.If(latest.Missing.Or(0) <= latest.Sampled.Or(0), "latest.missing is larger than latest.sampled"))
	recordGroups(rec, doc.Groups)
}

// shardRows lists the shards that lack names or could not be asked, and says
// why no name could be sampled if none was.
func shardRows(rec *probes.Recorder, doc source.BloomVerify) (blind string) {
	blind = "no existing names could be sampled"
	for _, s := range doc.Shards[:min(len(doc.Shards), maxRows)] {
		if s.Error == "" && s.Missing.Or(0) == 0 {
			continue
		}
		row := probes.Row{Table: tableNames, Key: s.Shard}
		row.Note = fmt.Sprintf("%.0f of %.0f existing names unknown to the filter", s.Missing.Or(0), s.Sampled.Or(0))
		row.Value, row.Unknown = s.Missing.Or(0), s.Missing.Why() != ""
		if s.Error != "" {
			row.Value, row.Unknown = 0, true
			row.Note = "could not be sampled: " + s.Error
			blind = fmt.Sprintf("no existing names could be sampled (%s: %s)", s.Shard, s.Error)
		}
		rec.Row(row)
	}
	return blind
}

// nameGroup is one kind of names held against all others.
type nameGroup struct {
	source.NameGroup

	// share is how many of its names are missing, others the same of the names
	// that are not in it.
	share, others probes.Number
}

// recordGroups records the kind of names that stands out: the one of which the
// largest share is missing and, of several with the same, of whose complement
// the smallest is.
func recordGroups(rec *probes.Recorder, docs []source.NameGroup) {
	facts := []string{"group_tested", "group_missing_share", "group_known_after", "others_missing_share"}
	if docs == nil {
		rec.Lack("groups is left out", facts...)
		return
	}
	groups := compareGroups(docs)
	if len(groups) == 0 {
		rec.Lack("no kind of names has 20 that could be tested", facts...)
		return
	}
	worst := groups[0]
	rec.Set("group_tested", worst.Sampled)
	rec.Set("group_missing_share", worst.share)
	rec.Set("group_known_after", worst.KnownAfter)
	rec.Set("others_missing_share", worst.others)
	for _, g := range groups[:min(len(groups), maxRows)] {
		if g.Missing.Or(0) == 0 {
			continue
		}
		rec.Row(probes.Row{
			Table: tableGroups, Key: g.By + " " + g.Group, Value: g.Missing.Or(0),
			Note: fmt.Sprintf("%.0f of %.0f existing names unknown to the filter", g.Missing.Or(0), g.Sampled.Or(0)),
		})
	}
}

// compareGroups holds the kinds that have enough names against all others, the
// one that stands out most first.
func compareGroups(docs []source.NameGroup) (groups []nameGroup) {
	sampled, missing := map[string]float64{}, map[string]float64{} // by what the kinds differ in
	for _, d := range docs {
		sampled[d.By] += d.Sampled.Or(0)
		missing[d.By] += d.Missing.Or(0)
	}
	for _, d := range docs {
		if d.Sampled.Or(0) < minGroup || d.Missing.Or(0) > d.Sampled.Or(0) {
			continue
		}
		g := nameGroup{NameGroup: d, share: d.Missing.Over(d.Sampled, "")}
		rest := probes.Known(sampled[d.By] - d.Sampled.Or(0))
		lacking := probes.Known(missing[d.By] - d.Missing.Or(0))
		g.others = lacking.Over(rest.AtLeast(minGroup, "all names that could be tested are of one kind"), "").Clamp(0, 1)
		groups = append(groups, g)
	}
	// By how much: a kind of which more is missing may only have more of the kind that it
	// is about, as punctuation among the latest names.
	stands := func(g nameGroup) float64 { return g.share.Or(0) - g.others.Or(1) }
	slices.SortStableFunc(groups, func(a, b nameGroup) int { return cmp.Compare(stands(b), stands(a)) })
	return groups
}
