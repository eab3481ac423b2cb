package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/local"
)

// TestTraffic pins the document about traffic, and that it shows neither a name
// nor an address.
func TestTraffic(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	contract, err := os.ReadFile("CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"somebody", "somebody", "anybody"} {
		document(t, http.MethodGet, p.URL+"/v1/check?name="+n, "")
	}
	document(t, http.MethodPost, p.URL+"/v1/register", `{"name":"somebody"}`)
	code, body := send(t, http.MethodGet, p.URL+"/debug/diagnose/traffic", "", "")
	if text := string(body); code != http.StatusOK || strings.Contains(text, "somebody") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("traffic = %d %s", code, text)
	}
	var doc struct {
		Checks, Registrations, Addressed uint64
		Names, Sources                   float64
		TopSources                       []struct {
			Source   string
			Requests uint64
		} `json:"top_sources"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Checks != 3 || doc.Registrations != 1 || doc.Addressed != 4 || int(doc.Names+0.5) != 2 || int(doc.Sources+0.5) != 1 ||
		len(doc.TopSources) != 1 || doc.TopSources[0].Requests != 4 {
		t.Errorf("traffic = %+v, want 3 checks and a registration, of 2 names and from one address", doc)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		t.Fatal(err)
	}
	text := sectionOf(string(contract), "GET /debug/diagnose/traffic")
	for _, name := range []string{"now", "started_at", "since", "names", "sources", "addressed", "top_sources", "lookups", "names_looked_up", "checks", "registrations"} {
		if _, served := fields[name]; !served || !strings.Contains(text, `"`+name+`"`) {
			t.Errorf("field %q: served %t, in CONTRACT.md %t", name, served, strings.Contains(text, `"`+name+`"`))
		}
	}
}
