package event

import (
	"testing"
	"time"
)

func TestEntryID(t *testing.T) {
	t.Parallel()
	const top = "18446744073709551615"
	f := func(text, before, after string) {
		t.Helper()
		id, err := parseEntryID(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := id.before().String(); got != before {
			t.Errorf("before %s is %s, want %s", text, got, before)
		}
		if got := id.after().String(); got != after {
			t.Errorf("after %s is %s, want %s", text, got, after)
		}
	}
	f("5-3", "5-2", "5-4")
	f("5-0", "4-"+top, "5-1")
	f("5", "4-"+top, "5-1")
	f("0-0", "0-0", "0-1")
	f("5-"+top, "5-18446744073709551614", "6-0")
	for _, bad := range []string{"", "-", "x", "1-", "-1", "1-x", "1-2-3", "18446744073709551616-0"} {
		if id, err := parseEntryID(bad); err == nil {
			t.Errorf("%q is %v, want an error", bad, id)
		}
	}
}

// FuzzDecode reads whatever somebody put into the stream, and its own writing without a loss.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "{", "{}", "null", `{"id":1}`, `{"id":"1","user_id":"9223372036854775808"}`} {
		f.Add(text)
	}
	good, err := encode(Event{ID: 1, Shard: "shard0", Type: NameClaimed, Name: "love", UserID: 1 << 60, At: time.Unix(1, 5000).UTC()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(e)
		if err != nil {
			return // a time that JSON cannot write
		}
		if got, err := decode(again); err != nil || !got.At.Equal(e.At) || got.ID != e.ID || got.Name != e.Name || got.UserID != e.UserID {
			t.Errorf("%q became %+v and then %+v, error %v", text, e, got, err)
		}
	})
}
