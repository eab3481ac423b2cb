package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/regpath/diagnose/notify"
	"github.com/regpath/diagnose/notify/slack/slacktest"
	"github.com/regpath/diagnose/webhook"
)

// aftermath is what is left of a storm.
type aftermath struct {
	alerts, groups, messages int
	// lost are the alerts that no incident has, and the groups whose message is
	// missing or not in its final state; doubled are incidents and messages beyond
	// the one of each group.
	lost, doubled int
	// open are the incidents that something is still to be done or said about.
	open int
	// first is one of the things that are wrong.
	first string
}

// judge waits until there is nothing more to do and say, and tells what came of it.
func (c *chaos) judge(ctx context.Context, out io.Writer) error {
	begun := time.Now()
	var last aftermath
	var told time.Time
	for {
		rows, err := c.incidents(ctx)
		if err != nil {
			return err
		}
		last = c.survey(rows, c.fake.Roots())
		if last.lost+last.doubled+last.open == 0 || time.Since(begun) > c.settles {
			break
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			if _, err := fmt.Fprintf(out, "%s after the last alert: %d to be worked on or told, %d not final: %s\n",
				time.Since(begun).Round(time.Second), last.open, last.lost, last.first); err != nil {
				return err
			}
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
	calls := c.fake.Calls()
	failed := 0
	for _, call := range calls {
		if call.Error != "" {
			failed++
		}
	}
	if _, err := fmt.Fprintf(out, "settled within %s; Slack was called %d times, %d in vain\nalerts=%d groups=%d messages=%d lost=%d doubled=%d kills=%d\n",
		time.Since(begun).Round(time.Second), len(calls), failed, last.alerts, last.groups, last.messages, last.lost, last.doubled, c.kills); err != nil {
		return err
	}
	switch v := c.fake.Violations(); {
	case last.lost+last.doubled+last.open > 0:
		return fmt.Errorf("%d lost, %d doubled, %d not told in the end: %s", last.lost, last.doubled, last.open, last.first)
	case len(v) > 0:
		return fmt.Errorf("the messages would harm a reader: %q", v)
	}
	return nil
}

// incidents asks the shipped binary, as an operator would.
func (c *chaos) incidents(ctx context.Context) ([]webhook.IncidentRow, error) {
	cmd := exec.CommandContext(ctx, c.binary, "incidents", "--config", c.agents[0].config, "--output", "json", "--limit", "1000000")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list incidents: %w: %s", err, complaint.String())
	}
	var rows []webhook.IncidentRow
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("list incidents: %w", err)
	}
	return rows, nil
}

// survey compares what was sent with what is kept and said.
func (c *chaos) survey(rows []webhook.IncidentRow, roots []slacktest.Message) aftermath {
	a := aftermath{messages: len(roots)}
	wrong := func(count *int, n int, format string, args ...any) {
		if n > 0 && a.first == "" {
			a.first = fmt.Sprintf(format, args...)
		}
		*count += max(n, 0)
	}
	byGroup := map[string][]webhook.IncidentRow{}
	for _, r := range rows {
		byGroup[r.Title] = append(byGroup[r.Title], r)
		a.alerts += r.Alerts
		if r.Pending || len(r.Undelivered) > 0 {
			wrong(&a.open, 1, "%s is not worked through (%v) or not told (%+v)", r.Title, r.Pending, r.Undelivered)
		}
	}
	a.groups = len(byGroup)
	byIncident := map[string][]slacktest.Message{}
	for _, m := range roots {
		id := incidentOf(m)
		byIncident[id] = append(byIncident[id], m)
	}
	for i := range c.groups {
		of := byGroup[c.group(i)]
		want := (c.alerts - i + c.groups - 1) / c.groups
		if len(of) == 0 {
			wrong(&a.lost, want, "%s has no incident", c.group(i))
			continue
		}
		r, said := of[0], byIncident[of[0].ID]
		wrong(&a.lost, want-r.Alerts, "%s has %d of %d alerts", c.group(i), r.Alerts, want)
		wrong(&a.doubled, len(of)-1, "%s has %d incidents", c.group(i), len(of))
		wrong(&a.doubled, len(said)-1, "%s has %d messages", c.group(i), len(said))
		if len(said) == 0 {
			wrong(&a.lost, 1, "%s has no message", c.group(i))
		} else if !final(said[0], want, c.resolves(i)) {
			wrong(&a.lost, 1, "the message of %s is not in its final state: %.300q", c.group(i), said[0].Visible())
		}
	}
	for id, said := range byIncident {
		if id == "" {
			wrong(&a.doubled, len(said), "a message is about no incident: %.300q", said[0].Visible())
		}
	}
	return a
}

// incidentOf is the incident that a message is about.
func incidentOf(m slacktest.Message) string {
	var key struct {
		Payload struct {
			Incident string `json:"incident"`
		} `json:"event_payload"`
	}
	if json.Unmarshal(m.Metadata, &key) != nil {
		return ""
	}
	return key.Payload.Incident
}

// final reports whether a message says all that there is to say in the end.
func final(m slacktest.Message, alerts int, resolved bool) bool {
	text := m.Visible()
	return strings.Contains(text, notify.Count(alerts, "alert")) && !strings.Contains(text, looking) &&
		strings.Contains(text, "Measured again after the alert resolved") == resolved
}
