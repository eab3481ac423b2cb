package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/webhook"
)

// mark is what people think of a report.
type mark string

const (
	markRight mark = "right"
	markWrong mark = "wrong"
)

const memoMarks = "marks"

// addMark remembers the last mark of each user. People press at the same moment, and
// several agents may hear of it.
func addMark(ctx context.Context, inbox *webhook.Inbox, incident, user string, m mark) error {
	return inbox.Amend(ctx, incident, memoMarks, func(kept []byte) ([]byte, error) {
		marks := map[string]mark{}
		if kept != nil {
			if err := json.Unmarshal(kept, &marks); err != nil {
				return nil, fmt.Errorf("read marks: %w", err)
			}
		}
		marks[user] = m
		return json.Marshal(marks)
	})
}

// stat is how often a verdict was reported, and what people thought of it.
type stat struct {
	Verdict string `json:"verdict"`
	Reports int    `json:"reports"`
	Right   int    `json:"right"`
	Wrong   int    `json:"wrong"`
}

// stats counts reports by what they found: the root cause, or the verdict.
func stats(ctx context.Context, store string, rows []webhook.IncidentRow) ([]stat, error) {
	byVerdict := map[string]*stat{}
	for _, r := range rows {
		var s story
		var marks map[string]mark
		for key, to := range map[string]any{memoStory: &s, memoMarks: &marks} {
			raw, ok, err := webhook.Kept(ctx, store, r.ID, key)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			if err := json.Unmarshal(raw, to); err != nil {
				return nil, fmt.Errorf("read %s of %s: %w", key, r.ID, err)
			}
		}
		if s.Report == nil {
			continue
		}
		verdict := string(s.Report.Verdict)
		if s.Report.Verdict == playbooks.CauseFound && len(s.Report.Causes) > 0 {
			verdict = s.Report.Causes[0].ID
		}
		of := byVerdict[verdict]
		if of == nil {
			of = &stat{Verdict: verdict}
			byVerdict[verdict] = of
		}
		of.Reports++
		for _, m := range marks {
			if m == markRight {
				of.Right++
			} else {
				of.Wrong++
			}
		}
	}
	all := make([]stat, 0, len(byVerdict))
	for _, verdict := range slices.Sorted(maps.Keys(byVerdict)) {
		all = append(all, *byVerdict[verdict])
	}
	return all, nil
}
