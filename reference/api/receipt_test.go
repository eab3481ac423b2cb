package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/name"
)

// TestReceipt shows what a registrant was given to an instance that knows
// nothing of the registration.
func TestReceipt(t *testing.T) {
	t.Parallel()
	const key = "the key that all instances share"
	ask := func(method, url, body, receipt string) (text string, header http.Header) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if receipt != "" {
			req.Header.Set("Registration-Receipt", receipt)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // it was only read
		all, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(all), res.Header
	}
	start := func(o local.Options) string {
		o.Shards, o.Names = 1, 10
		path, err := local.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := path.Close(); err != nil {
				t.Error(err)
			}
		})
		return path.URL
	}
	here, there, stranger := start(local.Options{ReceiptKey: key}), start(local.Options{ReceiptKey: key}), start(local.Options{})

	_, header := ask(http.MethodPost, here+"/v1/register", `{"name":"Wanted"}`, "")
	receipt := header.Get("Registration-Receipt")
	if receipt == "" {
		t.Fatal("the registrant was given no receipt")
	}
	f := func(what, base, name, shown string, want bool) {
		t.Helper()
		if text, _ := ask(http.MethodGet, base+"/v1/check?name="+name, "", shown); strings.Contains(text, `"available":true`) != want {
			t.Errorf("%s: got %s, want available %t", what, text, want)
		}
	}
	f("with its receipt", there, "wanted", receipt, false)
	f("in another spelling", there, "WANTED", receipt, false)
	f("without it", there, "wanted", "", true)
	f("for another name", there, "unwanted", receipt, true)
	f("spoilt", there, "wanted", receipt+"x", true)
	f("of another key", stranger, "wanted", receipt, true)
	_, header = ask(http.MethodPost, here+"/v1/register", `{"name":"wanted"}`, "")
	if got := header.Get("Registration-Receipt"); got != "" {
		t.Errorf("who lost was given the receipt %q", got)
	}
}

// TestNamePolicy pins that every path of the server goes by the policy that it was started with.
func TestNamePolicy(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{Names: 1, NamePolicy: name.Options{Scripts: []string{"Cyrillic"}}})
	const mir = "%D0%BC%D0%B8%D1%80" // мир
	f := func(method, path, body string, want int) {
		t.Helper()
		if code, b := send(t, method, p.URL+path, "application/json", body); code != want {
			t.Errorf("%s %s %s = %d %s, want %d", method, path, body, code, b, want)
		}
	}
	f(http.MethodGet, "/v1/check?name="+mir, "", http.StatusOK)
	f(http.MethodGet, "/v1/check?name=love", "", http.StatusBadRequest)
	f(http.MethodPost, "/v1/register", `{"name":"Мир"}`, http.StatusCreated)
	f(http.MethodPost, "/v1/register", `{"name":"love"}`, http.StatusBadRequest)
	f(http.MethodPost, "/v1/register", `{"name":"мир"}`, http.StatusConflict)
	f(http.MethodDelete, "/v1/names/"+mir+"?user_id=1", "", http.StatusForbidden)
	f(http.MethodDelete, "/v1/names/love?user_id=1", "", http.StatusBadRequest)
	doc := document(t, http.MethodPost, p.URL+"/debug/diagnose/bloom/test", `{"names":["zz0canary1","мир","love"]}`)
	if got, want := fmt.Sprintf("%v %v %v", doc["tested"], doc["invalid"], doc["maybe"]), "2 1 [1]"; got != want {
		t.Errorf("tested, invalid, maybe = %s, want %s", got, want)
	}
}
