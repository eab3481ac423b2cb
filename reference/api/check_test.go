package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/regpath/diagnose/reference"
)

// FuzzQueryName holds the short way to what url.ParseQuery says.
func FuzzQueryName(f *testing.F) {
	for _, s := range []string{"name=abc", "name=a=b", "name=", "name", "name=a&name=b", "name=a;b", "name=a+b", "name=%61", "name=%", "Name=a", "x=name=a", "name=\xff", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got, err := queryName(&url.URL{RawQuery: query})
		values, parseErr := url.ParseQuery(query)
		if ok := parseErr == nil && len(values["name"]) == 1; ok != (err == nil) || ok && got != values["name"][0] {
			t.Errorf("queryName(%q) = %q, %v, want what %v, %v holds", query, got, err, values, parseErr)
		}
	})
}

// FuzzChecked holds the short way to what encoding/json says.
func FuzzChecked(f *testing.F) {
	for _, s := range []string{"abc", "a_b.c-d9", "日本", `a"b`, `a\b`, "a<b", "\xff", ""} {
		f.Add(s, true)
		f.Add(s, false)
	}
	server := Server{headers: []string{"application/json", "nosniff"}}
	server.room.New = func() any { return new([answerRoom]byte) }
	f.Fuzz(func(t *testing.T, name string, available bool) {
		c := checked{Name: name, Available: available, AnsweredBy: reference.Bloom}
		want, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time in used room
			got := httptest.NewRecorder()
			if code := server.writeChecked(got, c); code != http.StatusOK || got.Code != http.StatusOK {
				t.Errorf("status %d, %d, want 200", code, got.Code)
			}
			if got.Body.String() != string(want)+"\n" || got.Header().Get("Content-Type") != "application/json" || got.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("sent %q with %v, want %q", got.Body, got.Header(), want)
			}
		}
	})
}
