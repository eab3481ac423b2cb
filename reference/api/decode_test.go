package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzDecode pins that no body gets through with less or more than one document
// of the right shape, and that a refusal is never an internal error.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"name":"abc"}`, `{"name":"abc"} `, `{}`, `null`, ``, `{"name":"abc"}{}`, `{"name":1}`, `{"x":"y"}`, `{"name":"a","name":"b"}`, `{"name":"a","n\u0061ME":"b"}`, `{"name":"\"name\":"}`, "\xff", strings.Repeat("[", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var v struct {
			Name *string `json:"name"`
		}
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		err := decode(httptest.NewRecorder(), req, 64, &v)
		if err == nil {
			if trimmed := strings.TrimSpace(body); len(body) > 64 || (trimmed != "null" && !strings.HasPrefix(trimmed, "{")) {
				t.Errorf("decode(%q) succeeded", body)
			}
			if n := fields(t, body); n > 1 { // there is no second field that has another name
				t.Errorf("decode(%q) succeeded with %d fields", body, n)
			}
			return
		}
		recorder := httptest.NewRecorder()
		want := http.StatusBadRequest
		if errors.Is(err, errTooLarge) {
			want = http.StatusRequestEntityTooLarge
		}
		if got := fail(recorder, err); got != want || recorder.Code != want {
			t.Errorf("decode(%q) = %v, answered with %d, want %d", body, err, got, want)
		}
	})
}

// fields counts the fields of an object of strings, or nulls, or of null.
func fields(t *testing.T, body string) (n int) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(body)); ; n++ {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return max(0, n-1) / 2 // the braces, and a name with each value
		}
		if err != nil {
			t.Fatalf("fields of %q: %v", body, err)
		}
		if token == nil && n == 0 {
			return 0
		}
	}
}

// FuzzPlainName pins that the short way reads what the long way does.
func FuzzPlainName(f *testing.F) {
	for _, s := range []string{`{"name":"abc"}`, `{"name":""}`, `{"name":"}`, `{"name":"a"b"}`, `{"name":"a\"}`, `{"name":"a","mobile":"b"}`, "{\"name\":\"a\nb\"}", `{"name":"é"}`, "{\"name\":\"\x7f\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, ok := plainName([]byte(body))
		if !ok {
			return
		}
		var v registration
		if err := parse([]byte(body), &v); err != nil || v.Name == nil || *v.Name != n || v != (registration{Name: v.Name}) {
			t.Errorf("plainName(%q) = %q, parse reads %+v, %v", body, n, v, err)
		}
	})
}
