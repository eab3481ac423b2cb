package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// start runs a small embedded path.
func start(t *testing.T, o local.Options) *local.Path {
	t.Helper()
	if o.Names == 0 {
		o.Names = 500
	}
	if o.Shards == 0 {
		o.Shards = 2
	}
	p, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// send sends a request and returns status and body.
func send(t *testing.T, method, url, contentType, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	client := http.Client{Timeout: 20 * time.Second}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	described(t, method, url, res.StatusCode)
	return res.StatusCode, b
}

// document gets a JSON document, numbers kept as they are written.
func document(t *testing.T, method, url, body string) map[string]any {
	t.Helper()
	code, b := send(t, method, url, "application/json", body)
	if code/100 != 2 {
		t.Fatalf("%s %s = %d %s", method, url, code, b)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%s: %v in %s", url, err, b)
	}
	return doc
}

// paths lists every field of a document with its type: "pool.size number".
// Elements of a list are written as [].
func paths(at string, v any, into map[string]bool) {
	join := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			paths(join(k), child, into)
		}
	case []any:
		into[at+" list"] = true
		for _, child := range v {
			paths(at+"[]", child, into)
		}
	case json.Number:
		into[at+" number"] = true
	case string:
		kind := " text"
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			kind = " time"
		}
		into[at+kind] = true
	default:
		into[fmt.Sprintf("%s %T", at, v)] = true
	}
}

// TestContract pins every document of the diagnostic contract, field by field,
// and that CONTRACT.md names every field.
func TestContract(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Faults: true})
	contract, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	// Something to tell in every document.
	document(t, http.MethodPost, p.URL+"/debug/fault/error-burst", "")
	document(t, http.MethodPost, p.URL+"/v1/register", `{"name":"somebody"}`)
	document(t, http.MethodGet, p.URL+"/v1/check?name=ada0", "")
	for deadline := time.Now().Add(10 * time.Second); document(t, http.MethodGet, p.URL+"/debug/diagnose/errors", "")["recorded"] == json.Number("0"); {
		if time.Now().After(deadline) {
			t.Fatal("the follow-up never failed")
		}
	}
	pool := func(at string) []string {
		var out []string
		for _, f := range []string{"size", "in_use", "idle", "pending", "acquires", "waits", "wait_seconds", "timeouts"} {
			out = append(out, at+"."+f+" number")
		}
		return out
	}
	check := func(section, method, url, body string, want ...string) map[string]any {
		t.Helper()
		doc := document(t, method, p.URL+url, body)
		got := map[string]bool{}
		paths("", doc, got)
		slices.Sort(want)
		if g := slices.Sorted(maps.Keys(got)); !slices.Equal(g, want) {
			t.Errorf("%s:\n got %s\nwant %s", url, strings.Join(g, "\n     "), strings.Join(want, "\n     "))
		}
		text := sectionOf(string(contract), section)
		for field := range got {
			path, _, _ := strings.Cut(field, " ")
			name := strings.TrimSuffix(path[strings.LastIndex(path, ".")+1:], "[]")
			if !strings.Contains(text, `"`+name+`"`) {
				t.Errorf("CONTRACT.md, %s: no field %q", section, name)
			}
		}
		return doc
	}

	check("GET /debug/diagnose/bloom", http.MethodGet, "/debug/diagnose/bloom", "",
		"now time", "started_at time", "m number", "k number", "capacity number", "target_rate number", "set_bits number",
		"names_added number", "adds_by_source.build number", "adds_by_source.register number", "adds_by_source.query number",
		"registrations number", "generation number", "built_at time")
	check("POST /debug/diagnose/bloom/test", http.MethodPost, "/debug/diagnose/bloom/test", `{"names":["ada0"]}`,
		"now time", "generation number", "tested number", "distinct number", "invalid number", "maybe list", "maybe[] number")
	check("GET /debug/diagnose/bloom/verify", http.MethodGet, "/debug/diagnose/bloom/verify?n=10&min_age=5s", "",
		"now time", "generation number", "sampled number", "missing number", "shards list",
		"shards[].shard text", "shards[].sampled number", "shards[].missing number", "latest.sampled number", "latest.missing number",
		"groups list", "groups[].by text", "groups[].group text", "groups[].sampled number", "groups[].missing number", "groups[].known_after number")
	check("POST /debug/diagnose/route", http.MethodPost, "/debug/diagnose/route", `{"names":["ada0"]}`,
		"now time", "version number", "shards list", "shards[] text")
	check("GET /debug/diagnose/redis", http.MethodGet, "/debug/diagnose/redis", "", append(pool("pool"),
		"now time", "started_at time", "address text", "client_name text", "pool.dials number", "commands number", "errors number", "busy_seconds number",
		"lookups number", "hits.taken number", "hits.free number", "misses number")...)
	check("GET /debug/diagnose/shards", http.MethodGet, "/debug/diagnose/shards", "", append(pool("shards[].pool"),
		"now time", "started_at time", "window_seconds number", "shards list", "shards[].shard text",
		"shards[].requests number", "shards[].errors number", "shards[].busy_seconds number",
		"shards[].top_keys.since time", "shards[].top_keys.total number", "shards[].top_keys.counters number", "shards[].top_keys.keys list",
		"shards[].top_keys.keys[].key text", "shards[].top_keys.keys[].count number", "shards[].top_keys.keys[].error number")...)
	errs := check("GET /debug/diagnose/errors", http.MethodGet, "/debug/diagnose/errors", "",
		"now time", "started_at time", "capacity number", "recorded number", "errors list", "errors[].at time", "errors[].level text",
		"errors[].message text", "errors[].layer text", "errors[].target text", "errors[].code text")
	requests := check("GET /debug/diagnose/requests", http.MethodGet, "/debug/diagnose/requests", "",
		"now time", "started_at time", "endpoints list", "endpoints[].endpoint text", "endpoints[].requests number",
		"endpoints[].errors number", "endpoints[].busy_seconds number", "endpoints[].latency.le list", "endpoints[].latency.le[] number",
		"endpoints[].latency.counts list", "endpoints[].latency.counts[] number",
		"endpoints[].answered_by.bloom number", "endpoints[].answered_by.local number", "endpoints[].answered_by.redis number", "endpoints[].answered_by.shard number",
		"endpoints[].outcomes.created number", "endpoints[].outcomes.taken number", "endpoints[].outcomes.invalid number", "endpoints[].outcomes.failed number")
	check("GET /debug/diagnose/clock", http.MethodGet, "/debug/diagnose/clock", "",
		"now time", "started_at time", "ids.given number", "ids.spare number", "ids.waits number", "ids.refused number", "ids.behind_seconds number")
	check("GET /debug/diagnose/consistency/sample", http.MethodGet, "/debug/diagnose/consistency/sample?n=10", "",
		"now time", "sampled number", "latest number", "shards list", "shards[].shard text", "shards[].sampled number",
		"redis.asked number", "redis.taken number", "redis.free number", "local.asked number", "local.taken number", "local.free number",
		"states.released number", "states.too_early number")
	latency := check("GET /debug/diagnose/latency", http.MethodGet, "/debug/diagnose/latency", "",
		"now time", "started_at time", "le list", "le[] number", "lookups.found number", "lookups.missing number",
		"scheduling.stalls number", "scheduling.stalled_seconds number",
		"endpoints list", "endpoints[].endpoint text", "endpoints[].requests number", "endpoints[].errors number",
		"endpoints[].busy_seconds number", "endpoints[].counts list", "endpoints[].counts[] number",
		"endpoints[].answered_by.bloom number", "endpoints[].answered_by.local number", "endpoints[].answered_by.redis number", "endpoints[].answered_by.shard number",
		"endpoints[].layers list", "endpoints[].layers[].layer text", "endpoints[].layers[].calls number",
		"endpoints[].layers[].busy_seconds number", "endpoints[].layers[].counts list", "endpoints[].layers[].counts[] number")
	changes := check("GET /debug/diagnose/changes", http.MethodGet, "/debug/diagnose/changes", "",
		"now time", "build.version text", "build.started_at time", "changes list", "changes[].at time", "changes[].kind text",
		"changes[].what text", "changes[].from text", "changes[].to text", "changes[].by text")
	check("Faults (only with `--faults`)", http.MethodGet, "/debug/fault/", "",
		"faults list", "faults[].name text", "faults[].on bool", "faults[].help text")

	event := errs["errors"].([]any)[0].(map[string]any)
	for k, want := range map[string]string{
		"level": "error", "layer": "event", "target": "profile-service", "code": "ECONNREFUSED",
		"message": "registration follow-up failed: dial tcp 127.0.0.1:9: connect: connection refused",
	} {
		if event[k] != want {
			t.Errorf("errors[0].%s = %v, want %q", k, event[k], want)
		}
	}
	for i, want := range []string{"check", "register"} {
		e := requests["endpoints"].([]any)[i].(map[string]any)
		l := e["latency"].(map[string]any)
		if e["endpoint"] != want || len(l["counts"].([]any)) != len(l["le"].([]any))+1 {
			t.Errorf("endpoints[%d] = %v, want %s with one count more than bounds", i, e, want)
		}
	}
	var layers []string
	for _, e := range latency["endpoints"].([]any) {
		for _, l := range e.(map[string]any)["layers"].([]any) {
			layers = append(layers, fmt.Sprintf("%v %v", e.(map[string]any)["endpoint"], l.(map[string]any)["layer"]))
		}
	}
	if want := []string{"check redis", "check shard", "register id", "register shard", "register redis", "register followup"}; !slices.Equal(layers, want) {
		t.Errorf("layers = %q, want %q", layers, want)
	}
	change := changes["changes"].([]any)[0].(map[string]any)
	if change["kind"] != "config" || change["what"] != "followup_url" || change["to"] != "http://127.0.0.1:9/v1/profiles" {
		t.Errorf("changes[0] = %v, want the change of followup_url", change)
	}
}

// TestSnapshot: the snapshot holds every document that takes no query, as it is
// served by itself, and CONTRACT.md lists it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	contract, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	text := sectionOf(string(contract), "GET /debug/diagnose/snapshot")
	snapshot := document(t, http.MethodGet, p.URL+"/debug/diagnose/snapshot", "")
	for name, inside := range snapshot {
		if !strings.Contains(text, `"`+name+`":{…}`) || !strings.Contains(string(contract), "\n## GET /debug/diagnose/"+name+"\n") {
			t.Errorf("CONTRACT.md does not describe the document %s and that the snapshot holds it", name)
		}
		alone, together := map[string]bool{}, map[string]bool{}
		paths("", document(t, http.MethodGet, p.URL+"/debug/diagnose/"+name, ""), alone)
		paths("", inside, together)
		for _, later := range []string{ // known once the service has watched for long enough, which may be between the two
			"checks_per_second number", "registrations_per_second number",
			"baseline.seconds number", "baseline.checks_per_second number", "baseline.registrations_per_second number",
		} {
			delete(alone, later)
			delete(together, later)
		}
		if !maps.Equal(alone, together) {
			t.Errorf("%s: the snapshot has %v, the document %v", name, together, alone)
		}
	}
	for _, heading := range regexp.MustCompile("(?m)^## GET /debug/diagnose/([a-z]+)$").FindAllStringSubmatch(string(contract), -1) {
		if _, ok := snapshot[heading[1]]; !ok && heading[1] != "snapshot" {
			t.Errorf("the snapshot lacks the document %s", heading[1])
		}
	}
}

// sectionOf returns the text of CONTRACT.md under the heading that begins so.
func sectionOf(contract, heading string) string {
	_, text, _ := strings.Cut(contract, "\n## "+heading)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestBloomTest pins what the canary test may and may not do.
func TestBloomTest(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	before := numbers(t, p.URL)
	body, err := json.Marshal(map[string][]string{"names": {
		"zz0canary1", "ADA0", "a", "zz0canary1", "ada0", " zz0canary2 ", "no good", "zz0canary3",
	}})
	if err != nil {
		t.Fatal(err)
	}
	doc := document(t, http.MethodPost, p.URL+"/debug/diagnose/bloom/test", string(body))
	for k, want := range map[string]string{"tested": "6", "distinct": "4", "invalid": "2", "maybe": "[1 4]"} {
		if got := fmt.Sprint(doc[k]); got != want {
			t.Errorf("%s = %s, want %s", k, got, want)
		}
	}
	if after := numbers(t, p.URL); after != before {
		t.Errorf("the test left a trace:\nbefore %s\nafter  %s", before, after)
	}

	refuse := func(body, contentType string, want int) {
		t.Helper()
		code, b := send(t, http.MethodPost, p.URL+"/debug/diagnose/bloom/test", contentType, body)
		var e struct{ Error string }
		if err := json.Unmarshal(b, &e); err != nil || code != want || e.Error == "" {
			t.Errorf("body of %d bytes: %d %s, want %d with an error", len(body), code, b, want)
		}
	}
	refuse(`{"names":["`+strings.Repeat(`a","`, 20_000)+`a"]}`, "application/json", http.StatusBadRequest)
	refuse(`{"names":["`+strings.Repeat("a", 1<<20)+`"]}`, "application/json", http.StatusRequestEntityTooLarge)
	refuse(`{"names":"ada0"}`, "application/json", http.StatusBadRequest)
	refuse(`{"nam":["ada0"]}`, "application/json", http.StatusBadRequest)
	refuse(`{"names":["ada0"]} {}`, "", http.StatusBadRequest)
	refuse(``, "", http.StatusBadRequest)
	refuse(`{"names":["ada0"]}`, "text/plain", http.StatusBadRequest)
	if doc := document(t, http.MethodPost, p.URL+"/debug/diagnose/bloom/test", `{"names":[]}`); fmt.Sprint(doc["maybe"]) != "[]" {
		t.Errorf("no names: %v, want an empty list", doc)
	}
}

func TestRoute(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	doc := document(t, http.MethodPost, p.URL+"/debug/diagnose/route", `{"names":["ada0","ADA0","no good"]}`)
	home := p.Service.Shards.Home("ada0")
	if got, want := fmt.Sprint(doc["shards"]), fmt.Sprintf("[%s %s ]", home, home); home == "" || got != want || fmt.Sprint(doc["version"]) != "1" {
		t.Errorf("got %v, want %s of version 1", doc, want)
	}
	if code, b := send(t, http.MethodPost, p.URL+"/debug/diagnose/route", "application/json", `{"names":["`+strings.Repeat(`a","`, 5_000)+`a"]}`); code != http.StatusBadRequest {
		t.Errorf("too many names: %d %s", code, b)
	}
}

// numbers returns every counter that a request could move.
func numbers(t *testing.T, url string) string {
	t.Helper()
	var out strings.Builder
	for _, name := range []string{"bloom", "redis", "shards", "errors", "requests"} {
		doc := document(t, http.MethodGet, url+"/debug/diagnose/"+name, "")
		delete(doc, "now")
		if shards, ok := doc["shards"].([]any); ok {
			for _, s := range shards {
				delete(s.(map[string]any), "pool") // the relay reads the outboxes by itself
			}
		}
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	return out.String()
}

func TestVerify(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Shards: 3})
	doc := document(t, http.MethodGet, p.URL+"/debug/diagnose/bloom/verify?n=100&min_age=1h", "")
	if fmt.Sprintf("%v %v", doc["sampled"], doc["missing"]) != "100 0" {
		t.Errorf("verify = %v, want 100 sampled, 0 missing", doc)
	}
	// Nothing is older than two days.
	if doc := document(t, http.MethodGet, p.URL+"/debug/diagnose/bloom/verify?min_age=48h", ""); fmt.Sprint(doc["sampled"]) != "0" {
		t.Errorf("verify of old names = %v, want 0 sampled", doc)
	}
	if doc := document(t, http.MethodGet, p.URL+"/debug/diagnose/bloom/verify?n=1", ""); fmt.Sprint(doc["sampled"]) != "1" {
		t.Errorf("verify of one name = %v, want 1 sampled", doc)
	}
	for _, q := range []string{"n=0", "n=5001", "n=-1", "n=x", "n=1e3", "min_age=5", "min_age=-1s", "min_age=x", "n=%zz"} {
		if code, b := send(t, http.MethodGet, p.URL+"/debug/diagnose/bloom/verify?"+q, "", ""); code != http.StatusBadRequest || !bytes.Contains(b, []byte(`"error"`)) {
			t.Errorf("verify?%s = %d %s, want 400 with an error", q, code, b)
		}
	}
}
