package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/regpath/diagnose/reference/local"
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
