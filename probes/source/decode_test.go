package source

import (
	"strings"
	"testing"
)

func TestDecodeNamesWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	var doc Shards
	if err := decode([]byte(`{"shards":[{"pool":{"in_use":"3"},"top_keys":{"keys":[{"key":"a","count":-1}]}}]}`), &doc); err != nil {
		t.Fatal(err)
	}
	s := doc.Shards[0]
	for got, want := range map[string]string{
		s.Requests.Why():              "shards.requests is left out",
		s.Pool.InUse.Why():            "shards.pool.in_use is not a number",
		s.TopKeys.Keys[0].Count.Why(): "shards.top_keys.keys.count is negative",
		s.TopKeys.Total.Why():         "shards.top_keys.total is left out",
		s.TopKeys.Keys[0].Error.Why(): "shards.top_keys.keys.error is left out",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDecodeDoesNotQuoteTheAnswer(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"shards":"hunter2"}`, `{"shards":[{"shard":"x","address":["hunter2"]}]}`, `{"shards":[hunter2]}`, `<p>hunter2`, `hunter2`, `{"shards":[]} hunter2`} {
		var doc Shards
		if err := decode([]byte(body), &doc); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want an error without the value", body, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"now":"2026-11-30T16:00:00Z","shards":[{"shard":"a","requests":1,"top_keys":{"keys":[{"count":1e400}]}}]}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var doc Shards
		if decode(body, &doc) != nil {
			return
		}
		for _, s := range doc.Shards {
			if v, ok := s.Requests.Get(); ok && !(v >= 0) {
				t.Errorf("requests: got %v", v)
			}
			if _, ok := s.Requests.Get(); !ok && !strings.HasPrefix(s.Requests.Why(), "shards.requests ") {
				t.Errorf("reason %q does not name the field", s.Requests.Why())
			}
		}
	})
}
