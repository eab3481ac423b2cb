package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// TestHostileNames asks and registers names that nobody may have.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	f := func(raw, want string) {
		t.Helper()
		code, b := send(t, http.MethodGet, p.URL+"/v1/check?name="+url.QueryEscape(raw), "", "")
		expect(t, "check "+quote(raw), code, b, http.StatusBadRequest, want)
		body, err := json.Marshal(map[string]string{"name": raw})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(raw, "\xff") || strings.Contains(raw, "\xed") {
			want = "U+FFFD" // what JSON makes of it
		}
		code, b = send(t, http.MethodPost, p.URL+"/v1/register", "application/json", string(body))
		expect(t, "register "+quote(raw), code, b, http.StatusBadRequest, want)
	}
	f("", "too short")
	f("ab", "too short")
	f(" \t\r\n ", "too short")
	f(strings.Repeat("a", 33), "too long")
	f(strings.Repeat("王", 32), "too long")
	f(strings.Repeat("\u0301", 200), "too long")
	f("love\x00", "U+0000 (control")
	f("\x00\x00\x00", "U+0000")
	f("lo\nve", "U+000A (control")
	f("lo\x1b[31mve", "U+001B (control")
	f("lo\x7fve", "U+007F (control")
	f("lo\u0085ve", "U+0085 (control")
	f("lo\u200bve", "U+200B (invisible")
	f("lo\u200dve", "U+200D (invisible")
	f("lo\u2060ve", "U+2060 (invisible")
	f("lo\ufeffve", "U+FEFF (invisible")
	f("lo\u00adve", "U+00AD (invisible")
	f("\u202eevol", "U+202E (invisible")
	f("lo\u2066ve", "U+2066 (invisible")
	f("lo\U000e0041ve", "U+E0041 (invisible")
	f("lo\ufe0fve", "U+FE0F (invisible")
	f("lo\u034fve", "U+034F (invisible")
	f("lo\u3164ve", "U+1160 (invisible")
	f("lo ve", "U+0020 (space")
	f("lo\u2003ve", "U+0020 (space") // NFKC makes an em space a space
	f("lo\u0336ve", "U+0336 (combining")
	f("Z\u0351\u036b\u0343algo", "(combining")
	f("аdmin", "U+0430 (Cyrillic letter)")
	f("αdmin", "U+03B1 (Greek letter)")
	f("ادمن", " letter)")
	f("ᎠᎡᎢ", " letter)")
	f("abc\u0663", "U+0663 (digit")
	f("😀😀😀", "U+1F600 (symbol")
	f("\U0010ffff\U0010ffff\U0010ffff", "U+10FFFF")
	f("\ue000abc", "U+E000")
	f("\ufffdabc", "U+FFFD")
	f("abc\xff", "not valid UTF-8")
	f("\xed\xa0\x80abc", "not valid UTF-8")
	f("...", "punctuation only")
	f("'; DROP TABLE names_00;--", "U+0027")
	f("a' OR '1'='1", "U+0027")
	f("<script>alert(1)", "U+003C")
	f("${jndi:ldap}", "U+0024")
	f("../../etc/passwd", "U+002F")
	f("a%00b%0aSET", "U+0025")
	f("name\r\nSET x y", "U+000D")
	f("<!channel>", "U+003C")
	f("*abc*", "U+002A")
	f("zz0canary1", "reserved")
	f("ZZ0CANARY1", "reserved")
	f("ｚｚ０ｃａｎａｒｙ", "reserved")
}

// TestHostileRequests sends what no browser would.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	get := func(query string, wantCode int, want string) {
		t.Helper()
		code, b := send(t, http.MethodGet, p.URL+"/v1/check"+query, "", "")
		expect(t, "check"+quote(query), code, b, wantCode, want)
	}
	get("", http.StatusBadRequest, "exactly one name")
	get("?nam=love", http.StatusBadRequest, "exactly one name")
	get("?name=a&name=b", http.StatusBadRequest, "exactly one name")
	get("?name=%zz", http.StatusBadRequest, "malformed")
	get("?name=love;name=cat", http.StatusBadRequest, "malformed")
	get("?name="+strings.Repeat("a", 10<<10), http.StatusBadRequest, "too long")

	post := func(what, body, contentType string, wantCode int, want string) {
		t.Helper()
		code, b := send(t, http.MethodPost, p.URL+"/v1/register", contentType, body)
		expect(t, what, code, b, wantCode, want)
	}
	const js = "application/json"
	post("empty", ``, js, http.StatusBadRequest, "not the JSON expected")
	post("null", `null`, js, http.StatusBadRequest, "name is missing")
	post("no name", `{}`, js, http.StatusBadRequest, "name is missing")
	post("null name", `{"name":null}`, js, http.StatusBadRequest, "name is missing")
	post("number", `{"name":1}`, js, http.StatusBadRequest, "not the JSON expected")
	post("list", `["love"]`, js, http.StatusBadRequest, "not the JSON expected")
	post("other field", `{"name":"abc","admin":true}`, js, http.StatusBadRequest, "not the JSON expected")
	post("cut off", `{"name":"ab`, js, http.StatusBadRequest, "not the JSON expected")
	post("two documents", `{"name":"abc"}{"name":"abd"}`, js, http.StatusBadRequest, "more than one")
	post("garbage behind", `{"name":"abc"} x`, js, http.StatusBadRequest, "not the JSON expected")
	post("deep", strings.Repeat(`{"name":`, 500), js, http.StatusBadRequest, "not the JSON expected")
	post("form", `name=abc`, "application/x-www-form-urlencoded", http.StatusBadRequest, "application/json")
	post("bad type", `{"name":"abc"}`, ";;", http.StatusBadRequest, "application/json")
	post("5 kB", `{"name":"`+strings.Repeat("a", 5<<10)+`"}`, js, http.StatusRequestEntityTooLarge, "too large")
	post("10 MB", `{"name":"`+strings.Repeat("a", 10<<20)+`"}`, js, http.StatusRequestEntityTooLarge, "too large")
	post("the same field twice", `{"name":"abc","name":"abd"}`, js, http.StatusBadRequest, "names a field twice")
	post("twice in another case", `{"name":"abc","NAME":"abd"}`, js, http.StatusBadRequest, "names a field twice")
	post("twice, once escaped", `{"name":"abc","n\u0061me":"abd"}`, js, http.StatusBadRequest, "names a field twice")
	post("huge number", `{"name":1e400}`, js, http.StatusBadRequest, "not the JSON expected")
	post("long number", `{"name":"abc","mobile":`+strings.Repeat("9", 3000)+`}`, js, http.StatusBadRequest, "not the JSON expected")
	post("deep lists", strings.Repeat("[", 2000)+strings.Repeat("]", 2000), js, http.StatusBadRequest, "not the JSON expected")
	post("deep where it is unknown", `{"x":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}`, js, http.StatusBadRequest, "not the JSON expected")
	post("comment", `{"name":"abc"/**/}`, js, http.StatusBadRequest, "not the JSON expected")
	post("single quotes", `{'name':'abc'}`, js, http.StatusBadRequest, "not the JSON expected")
	post("comma behind", `{"name":"abc",}`, js, http.StatusBadRequest, "not the JSON expected")
	post("byte order mark", "\ufeff"+`{"name":"abc"}`, js, http.StatusBadRequest, "not the JSON expected")
	post("UTF-16", "{\x00\"\x00n\x00", js, http.StatusBadRequest, "not the JSON expected")
	post("NUL behind", `{"name":"abc"}`+"\x00", js, http.StatusBadRequest, "not the JSON expected")
	post("line break in a string", "{\"name\":\"a\nbc\"}", js, http.StatusBadRequest, "not the JSON expected")
	post("NUL, escaped", `{"name":"ab\u0000c"}`, js, http.StatusBadRequest, "U+0000")
	post("lone surrogate", `{"name":"ab\ud800c"}`, js, http.StatusBadRequest, "U+FFFD")
	post("invalid UTF-8", "{\"name\":\"ab\xffc\"}", js, http.StatusBadRequest, "U+FFFD")
	post("mobile of letters", `{"name":"abc","mobile":"+49abcdefgh"}`, js, http.StatusBadRequest, "mobile number must be")
	post("mobile of other digits", `{"name":"abc","mobile":"+٤٩١٢٣٤٥٦٧٨"}`, js, http.StatusBadRequest, "mobile number must be")
	post("mobile with SQL", `{"name":"abc","mobile":"+4912345678'--"}`, js, http.StatusBadRequest, "mobile number must be")
	post("mobile too long", `{"name":"abc","mobile":"+`+strings.Repeat("4", 100)+`"}`, js, http.StatusBadRequest, "mobile number must be")
	post("plain text", `{"name":"abc"}`, "text/plain", http.StatusBadRequest, "application/json")
	post("multipart", `{"name":"abc"}`, "multipart/form-data; boundary=x", http.StatusBadRequest, "application/json")
	post("nearly JSON", `{"name":"abc"}`, "application/jsonx", http.StatusBadRequest, "application/json")
	post("space behind", `{"name":"abc"}`+strings.Repeat(" ", 5<<10), js, http.StatusRequestEntityTooLarge, "too large")

	for _, id := range []string{"", "0", "-1", "abc", "1e3", "99999999999999999999", "1%20OR%201=1", "%00"} {
		code, b := send(t, http.MethodDelete, p.URL+"/v1/names/abc?user_id="+id, "", "")
		expect(t, "release for user "+id, code, b, http.StatusBadRequest, "user_id of the owner")
	}
	for _, hostile := range []string{"a%00b", "%E2%80%AEabc", "%FFabc", "..%2f..%2fetc", "%27%20OR%201"} {
		code, b := send(t, http.MethodPost, p.URL+"/v1/names/"+hostile+"/lock?user_id=1", "", "")
		expect(t, "lock of "+hostile, code, b, http.StatusBadRequest, "name ")
	}

	status := func(method, path string, want int) {
		t.Helper()
		if code, b := send(t, method, p.URL+path, "", ""); code != want {
			t.Errorf("%s %s = %d %s, want %d", method, path, code, b, want)
		}
	}
	status(http.MethodPost, "/v1/check?name=abc", http.StatusMethodNotAllowed)
	status(http.MethodGet, "/v1/register", http.StatusMethodNotAllowed)
	status(http.MethodDelete, "/debug/diagnose/bloom", http.StatusMethodNotAllowed)
	status(http.MethodGet, "/debug/diagnose/nothing", http.StatusNotFound)
	status(http.MethodGet, "/debug/fault/", http.StatusNotFound) // not without --faults
	status(http.MethodPost, "/debug/fault/redis-down", http.StatusNotFound)
	status(http.MethodGet, "/", http.StatusNotFound)

	// Nothing of all this is an error of the checker's. On a busy machine its upkeep may be late.
	doc := document(t, http.MethodGet, p.URL+"/debug/diagnose/errors", "")
	for _, e := range doc["errors"].([]any) {
		if of := e.(map[string]any); of["code"] != "timeout" && of["code"] != "pool_timeout" {
			t.Errorf("error %v, want none", of)
		}
	}
}

// TestLongHeader must not make the server keep it.
func TestLongHeader(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	var d net.Dialer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(p.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing to lose
	go func() {
		_, _ = fmt.Fprintf(conn, "GET /v1/check?name=abc HTTP/1.1\r\nHost: x\r\nX-Long: %s\r\n\r\n", strings.Repeat("a", 1<<20))
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return // cut off: as good
	}
	defer res.Body.Close() //nolint:errcheck // nothing to lose
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status = %d, want %d", res.StatusCode, http.StatusRequestHeaderFieldsTooLarge)
	}
}

// expect checks an error answer: its status, its text, and that it repeats
// nothing that could do harm where it is shown.
func expect(t *testing.T, what string, code int, body []byte, wantCode int, want string) {
	t.Helper()
	var e struct{ Error string }
	if err := json.Unmarshal(body, &e); err != nil || code != wantCode || !strings.Contains(e.Error, want) {
		t.Errorf("%s: %d %s, want %d with %q", what, code, body, wantCode, want)
	}
	for _, r := range e.Error {
		if r < ' ' || r > '~' {
			t.Errorf("%s: the error repeats U+%04X", what, r)
		}
	}
}

// quote shortens and quotes s for a message.
func quote(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%q", s)
}

func TestCheckAndRegister(t *testing.T) {
	t.Parallel()
	p := start(t, local.Options{})
	check := func(raw, wantName string, available bool, by string) {
		t.Helper()
		doc := document(t, http.MethodGet, p.URL+"/v1/check?name="+url.QueryEscape(raw), "")
		if doc["name"] != wantName || doc["available"] != available || doc["answered_by"] != by {
			t.Errorf("check %q = %v, want %s available %v by %s", raw, doc, wantName, available, by)
		}
	}
	check("Some_One", "some_one", true, "bloom")
	doc := document(t, http.MethodPost, p.URL+"/v1/register", `{"name":" Some_One "}`)
	if id, ok := doc["user_id"].(string); doc["name"] != "some_one" || !ok || len(id) < 15 {
		t.Errorf("register = %v, want some_one with a long id", doc)
	}
	check("SOME_ONE", "some_one", false, "local")
	code, b := send(t, http.MethodPost, p.URL+"/v1/register", "application/json", `{"name":"some_one"}`)
	expect(t, "register again", code, b, http.StatusConflict, "name is taken")
	check("ada1", "ada1", false, "redis")
	check("ada1", "ada1", false, "local")
	check("ada0", "ada0", false, "shard") // its marker has expired

	requests := document(t, http.MethodGet, p.URL+"/debug/diagnose/requests", "")["endpoints"].([]any)
	if got, want := fmt.Sprint(requests[0].(map[string]any)["answered_by"]), "map[bloom:1 local:2 redis:1 shard:1]"; got != want {
		t.Errorf("answered_by = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(requests[1].(map[string]any)["outcomes"]), "map[created:1 failed:0 invalid:0 taken:1]"; got != want {
		t.Errorf("outcomes = %s, want %s", got, want)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if doc := document(t, http.MethodGet, p.URL+path, ""); doc["status"] != "ok" {
			t.Errorf("%s = %v, want ok", path, doc)
		}
	}
	metrics := func() string {
		_, b := send(t, http.MethodGet, p.URL+"/metrics", "", "")
		return string(b)
	}()
	for _, want := range []string{
		`checker_http_requests_total{code="200",endpoint="check"} 5`,
		`checker_http_requests_total{code="409",endpoint="register"} 1`,
		`checker_http_request_duration_seconds_count{endpoint="check"} 5`,
		`checker_answers_total{layer="redis"} 1`,
		`checker_registrations_total{outcome="created"} 1`,
		`checker_redis_pool_conn_max 20`,
		`checker_redis_pool_pending_requests 0`,
		`checker_redis_pool_timeout_total 0`,
		`checker_redis_pool_conn_total_current 1`,
		`checker_shard_pool_conn_max{shard="shard1"} 8`,
		`checker_shard_pool_pending_requests{shard="shard0"} 0`,
		`checker_bloom_names_added{source="register"} 1`,
		`checker_bloom_names_added{source="query"} 0`,
		`checker_bloom_generation 1`,
		"go_goroutines", "process_cpu_seconds_total", "go_build_info",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
