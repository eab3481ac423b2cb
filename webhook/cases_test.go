package webhook

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// caseRow is the right answer to one file, posted to an empty store.
type caseRow struct {
	status int
	effect Effect // empty: no incident
	alerts int    // of the incident
	reason string // of a refusal
	why    string
}

// caseTable has a row for every file in testdata/alertmanager.
func caseTable() map[string]caseRow {
	const ok, bad = http.StatusOK, http.StatusBadRequest
	return map[string]caseRow{
		"01-valid-json-not-alertmanager.json": {status: bad, reason: "not-alertmanager", why: "no alerts key: it will never be one"},
		"02-no-alertname.json":                {status: ok, effect: Opened, alerts: 1, why: "alertname is a label like any other"},
		"03-no-instance-no-job.json":          {status: ok, effect: Opened, alerts: 1, why: "no label is required"},
		"04-empty-alerts.json":                {status: ok, why: "says nothing; a refusal would alarm the sender"},
		"06-null-maps.json":                   {status: ok, effect: Opened, alerts: 1, why: "null is an empty map; the fingerprint still identifies"},
		"07-mixed-status-root-firing.json":    {status: ok, effect: Opened, alerts: 2, why: "one alert fires; the other is kept as resolved"},
		"09a-ha-peer-a.json":                  {status: ok, effect: Opened, alerts: 1},
		"09b-ha-peer-b.json":                  {status: ok, effect: Opened, alerts: 1, why: "alone it opens; after 09a it is a repetition (R08)"},
		"10a-resolved-first.json":             {status: ok, why: "resolved, never heard firing: nothing to diagnose"},
		"10b-stale-firing-after-resolved.json": {
			status: ok, effect: Opened, alerts: 1, why: "alone it is a firing alert; after 10a it is old news (R09)",
		},
		"11-resolved-never-seen-firing.json":                         {status: ok, why: "as 10a"},
		"12-missing-groupkey-and-fingerprint.json":                   {status: ok, effect: Opened, alerts: 1, why: "both are derived (R15)"},
		"14-time-empty-string.json":                                  {status: ok, effect: Opened, alerts: 1, why: "a bad time spoils its own field only"},
		"15-time-garbage.json":                                       {status: ok, effect: Opened, alerts: 2, why: "as 14; both alerts count"},
		"16-starts-in-future.json":                                   {status: ok, effect: Opened, alerts: 1, why: "it fires now, whatever its clock says"},
		"18-grafana-unified.json":                                    {status: ok, effect: Opened, alerts: 1, why: `Grafana's "1" with orgId has the same fields`},
		"20-receiver-slash.json":                                     {status: ok, effect: Opened, alerts: 1},
		"22-utf8-labels.json":                                        {status: ok, effect: Opened, alerts: 1, why: "any UTF-8 is a legal label"},
		"23-slack-injection.json":                                    {status: ok, effect: Opened, alerts: 1, why: "text is kept; sinks escape it"},
		"25-generatorurl-5000.json":                                  {status: ok, effect: Opened, alerts: 1},
		"26-generatorurl-javascript.json":                            {status: ok, effect: Opened, alerts: 1, why: "sinks make no link of it"},
		"27-description-20000.json":                                  {status: ok, effect: Opened, alerts: 1},
		"29-alertname-300.json":                                      {status: ok, effect: Opened, alerts: 1},
		"30-empty-and-space-annotations.json":                        {status: ok, effect: Opened, alerts: 1},
		"32-60-alerts.json":                                          {status: ok, effect: Opened, alerts: 60, why: "one group, one incident"},
		"33-5000-alerts.json":                                        {status: ok, effect: Opened, alerts: 5000, why: "a storm is one incident"},
		"34-version-5.json":                                          {status: bad, reason: "version", why: "its fields may mean anything"},
		"35-version-missing.json":                                    {status: ok, effect: Opened, alerts: 1, why: "look-alike senders leave it out"},
		"37-truncated-negative.json":                                 {status: ok, effect: Opened, alerts: 1, why: "spoils its own field only"},
		"39-status-unknown.json":                                     {status: ok, why: "neither firing nor resolved: not fine, but no alarm either; counted and logged"},
		"41-trailing-garbage.bin":                                    {status: bad, reason: "syntax", why: "not one document: who knows what else was mangled"},
		"43-bom.bin":                                                 {status: bad, reason: "encoding", why: "no JSON sender may write one"},
		"45-truncated-json.bin":                                      {status: bad, reason: "syntax"},
		"46-empty.bin":                                               {status: bad, reason: "empty"},
		"47-invalid-utf8.bin":                                        {status: bad, reason: "encoding", why: "Alertmanager never sends it; replaced bytes would make another identity"},
		"50-array-root.json":                                         {status: bad, reason: "not-alertmanager"},
		"51-alerts-object.json":                                      {status: bad, reason: "not-alertmanager"},
		"53-duplicate-alert-in-one-payload.json":                     {status: ok, effect: Opened, alerts: 1, why: "one fingerprint, one alert"},
		"56-prom-template-error.json":                                {status: ok, effect: Opened, alerts: 1},
		"57-p0-label-case-and-variants.json":                         {status: ok, effect: Opened, alerts: 6},
		"v25-firing-truncated.json":                                  {status: ok, effect: Opened, alerts: 3, why: "without notification_reason and routeLabels"},
		"v35-empty-annotation-value.json":                            {status: ok, effect: Opened, alerts: 1},
		"v35-firing-single.json":                                     {status: ok, effect: Opened, alerts: 1},
		"v35-group-all-resolved.json":                                {status: ok, why: "no incident is known"},
		"v35-group-by-all.json":                                      {status: ok, effect: Opened, alerts: 1},
		"v35-group-firing-5-first-flush.json":                        {status: ok, effect: Opened, alerts: 4},
		"v35-group-firing-5.json":                                    {status: ok, effect: Opened, alerts: 5},
		"v35-group-mixed-firing-and-resolved.json":                   {status: ok, effect: Opened, alerts: 5},
		"v35-invalid-utf8-replaced.json":                             {status: ok, effect: Opened, alerts: 1, why: "the replacement characters are valid UTF-8"},
		"v35-no-alertname.json":                                      {status: ok, effect: Opened, alerts: 1},
		"v35-only-alertname-no-annotations.json":                     {status: ok, effect: Opened, alerts: 1},
		"v35-real-prometheus-bad-template-annotation.json":           {status: ok, effect: Opened, alerts: 1},
		"v35-real-prometheus-firing-no-annotations.json":             {status: ok, effect: Opened, alerts: 1},
		"v35-real-prometheus-resolved.json":                          {status: ok, why: "no incident is known"},
		"v35-receiver-name-regex-quoted.json":                        {status: ok, effect: Opened, alerts: 1},
		"v35-repeat-interval-elapsed.json":                           {status: ok, effect: Opened, alerts: 1, why: "still fires: the store is newer than the alert"},
		"v35-resolved-single.json":                                   {status: ok, why: "no incident is known"},
		"v35-retry-attempt-1.json":                                   {status: ok, effect: Opened, alerts: 1},
		"v35-retry-attempt-4-identical-body.json":                    {status: ok, effect: Opened, alerts: 1, why: "alone it opens; after attempt 1 it is a repetition (R11)"},
		"v35-route-labels.json":                                      {status: ok, effect: Opened, alerts: 1},
		"v35-same-alert-two-routes-a.json":                           {status: ok, effect: Opened, alerts: 1},
		"v35-same-alert-two-routes-b.json":                           {status: ok, effect: Opened, alerts: 1, why: "alone it opens; after a it is the same group"},
		"v35-startsAt-in-future.json":                                {status: ok, effect: Opened, alerts: 1},
		"v35-truncated-TRAP-status-resolved-but-5-still-firing.json": {status: ok, why: "what is in sight is resolved and no incident is known (R07)"},
		"v35-truncated-max2-first.json":                              {status: ok, effect: Opened, alerts: 2, why: "two more are hidden"},
		"v35-utf8-label-names-emoji-nul-rtl-slackmentions.json":      {status: ok, effect: Opened, alerts: 1},
	}
}

func TestCases(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir(filepath.Join("testdata", "alertmanager"))
	if err != nil {
		t.Fatal(err)
	}
	table := caseTable()
	if len(files) != len(table) {
		t.Errorf("got %d files, the table has %d rows", len(files), len(table))
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			t.Parallel()
			want, ok := table[f.Name()]
			if !ok {
				t.Fatal("the file has no row in the table")
			}
			in := openInbox(t, Options{})
			code, a := serve(t, newHandler(in), request(readCase(t, f.Name())))
			if code != want.status || a.Reason != want.reason {
				t.Fatalf("got %d %q (%s), want %d %q", code, a.Reason, a.Error, want.status, want.reason)
			}
			rows := incidents(t, in)
			if want.effect == "" {
				if len(a.Incidents) != 0 || len(rows) != 0 {
					t.Fatalf("got %v and incidents %+v, want none", a.Incidents, rows)
				}
				return
			}
			if len(a.Incidents) != 1 || a.Incidents[0].Effect != want.effect || len(rows) != 1 || rows[0].ID != a.Incidents[0].Incident {
				t.Fatalf("got %v and incidents %+v, want one, %s", a.Incidents, rows, want.effect)
			}
			if rows[0].State != StateOpen || rows[0].Alerts != want.alerts {
				t.Errorf("got %s with %d alerts, want open with %d", rows[0].State, rows[0].Alerts, want.alerts)
			}
			if rows[0].StartedAt.After(noon()) {
				t.Errorf("StartedAt %s is in the future", rows[0].StartedAt)
			}
			if rows[0].Title == "" || !rows[0].Pending {
				t.Errorf("got title %q, pending %t, want some title and pending work", rows[0].Title, rows[0].Pending)
			}
		})
	}
}

// TestFingerprints compares what we compute with what Alertmanager sent.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "alertmanager", "v[23]5-*.json"))
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d captured payloads, %v", len(files), err)
	}
	compared := 0
	for _, f := range files {
		m, err := Decode(readCase(t, filepath.Base(f)))
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		for _, a := range m.Alerts {
			compared++
			if got := fingerprint(a.Labels); got != a.Fingerprint {
				t.Errorf("%s: fingerprint of %v: got %s, want %s", filepath.Base(f), a.Labels, got, a.Fingerprint)
			}
		}
	}
	if compared < 30 {
		t.Errorf("compared %d fingerprints, want more", compared)
	}
}
