package webhook

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

func TestAdmission(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	h := Handler(in, HandlerOptions{Tokens: []string{"new-canary-token", "old-canary-token"}})
	body := readCase(t, "04-empty-alerts.json")
	for _, tt := range []struct {
		name   string
		change func(r *http.Request)
		status int
		reason string
		header string // that the answer must have
	}{
		{"new token", func(*http.Request) {}, 200, "", ""},
		{"old token", func(r *http.Request) { r.Header.Set("Authorization", "bearer  old-canary-token") }, 200, "", ""},
		{"charset", func(r *http.Request) { r.Header.Set("Content-Type", "Application/JSON; charset=UTF-8") }, 200, "", ""},
		{"identity", func(r *http.Request) { r.Header.Set("Content-Encoding", "identity") }, 200, "", ""},
		{"GET", func(r *http.Request) { r.Method = http.MethodGet }, 405, "method", "Allow"},
		{"HEAD", func(r *http.Request) { r.Method = http.MethodHead }, 405, "method", "Allow"},
		{"PUT", func(r *http.Request) { r.Method = http.MethodPut }, 405, "method", "Allow"},
		{"no token", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "no-token", "WWW-Authenticate"},
		{"empty token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401, "no-token", "WWW-Authenticate"},
		{"basic", func(r *http.Request) { r.SetBasicAuth("user", "new-canary-token") }, 401, "no-token", "WWW-Authenticate"},
		{"wrong token", func(r *http.Request) { r.Header.Set("Authorization", "Bearer new-canary-token2") }, 403, "wrong-token", "WWW-Authenticate"},
		{"no type", func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "content-type", ""},
		{"form", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "content-type", ""},
		{"latin-1", func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }, 415, "content-type", ""},
		{"gzip", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415, "content-encoding", "Accept-Encoding"},
	} {
		r := request(body)
		r.Header.Set("Authorization", "Bearer new-canary-token")
		tt.change(r)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != tt.status || !strings.Contains(rec.Body.String(), tt.reason) {
			t.Errorf("%s: got %d %s, want %d %q", tt.name, rec.Code, rec.Body, tt.status, tt.reason)
		}
		if tt.header != "" && rec.Header().Get(tt.header) == "" {
			t.Errorf("%s: the answer has no %s", tt.name, tt.header)
		}
		if strings.Contains(rec.Body.String(), "canary") {
			t.Errorf("%s: the answer holds a token: %s", tt.name, rec.Body)
		}
	}
	if got := counted(t, in, "diagnose_webhook_received_total", ""); got != 15 {
		t.Errorf("received: got %v, want 15", got)
	}
	if got := counted(t, in, "diagnose_webhook_accepted_total", ""); got != 4 {
		t.Errorf("accepted: got %v, want 4", got)
	}
	// An empty token in the configuration must not open the door.
	r := request(body)
	r.Header.Set("Authorization", "Bearer ")
	if code, _ := serve(t, Handler(in, HandlerOptions{Tokens: []string{""}}), r); code != http.StatusUnauthorized {
		t.Errorf("empty token configured and sent: got %d, want 401", code)
	}
}

// TestBodies: inputs that are no files.
func TestBodies(t *testing.T) {
	t.Parallel()
	valid := string(readCase(t, "v35-firing-single.json"))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, valid); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	wide := func(bom bool, little bool) string {
		var b []byte
		units := utf16.Encode([]rune(valid))
		if bom {
			units = append([]uint16{0xfeff}, units...)
		}
		for _, u := range units {
			if little {
				b = append(b, byte(u), byte(u>>8))
			} else {
				b = append(b, byte(u>>8), byte(u))
			}
		}
		return string(b)
	}
	status := func(s string) string { return strings.ReplaceAll(valid, `"firing"`, s) }
	for _, tt := range []struct {
		name, body string
		status     int
		reason     string
		effect     Effect
		spoilt     int
	}{
		{"36 truncatedAlerts 2^64-1", strings.Replace(valid, `"truncatedAlerts":0`, `"truncatedAlerts":18446744073709551615`, 1), 200, "", Opened, 0},
		{"36 truncatedAlerts beyond", strings.Replace(valid, `"truncatedAlerts":0`, `"truncatedAlerts":99999999999999999999`, 1), 200, "", Opened, 0},
		{"36 truncatedAlerts without end", strings.Replace(valid, `"truncatedAlerts":0`, `"truncatedAlerts":`+strings.Repeat("9", 100_000), 1), 200, "", Opened, 1},
		{"36 truncatedAlerts 1e400", strings.Replace(valid, `"truncatedAlerts":0`, `"truncatedAlerts":1e400`, 1), 200, "", Opened, 1},
		{"38 numbers and truth values as labels", strings.Replace(valid, `"P0"`, `0, "n":1.5e3, "t":true, "nil":null, "o":{"x":[1]}`, 1), 200, "", Opened, 1},
		{"40 upper-case status", status(`"FIRING"`), 200, "", Opened, 0},
		{"40 spaced status", status(`" firing\n"`), 200, "", Opened, 0},
		{"no status, no end", status(`null`), 200, "", Opened, 0},
		{"status is an object", status(`{}`), 200, "", Opened, 1},
		{"42 two documents", valid + valid, 400, "syntax", "", 0},
		{"44 gzip", zipped.String(), 400, "encoding", "", 0},
		{"48 duplicate keys, the last wins", strings.Replace(valid, `"version":"4"`, `"version":"9","version":"4"`, 1), 200, "", Opened, 0},
		{"48 duplicate alerts", strings.Replace(valid, `"groupKey"`, `"alerts":[],"groupKey"`, 1), 200, "", "", 0},
		{"49 depth 20,000", strings.Replace(valid, `"version"`, `"deep":`+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`,"version"`, 1), 400, "syntax", "", 0},
		{"49 depth 20,000, never closed", strings.Repeat(`{"alerts":[`, 10_000), 400, "syntax", "", 0},
		{"52 UTF-16, little end first", wide(true, true), 400, "encoding", "", 0},
		{"52 UTF-16, big end first", wide(true, false), 400, "encoding", "", 0},
		{"52 UTF-16 without a mark", wide(false, true), 400, "encoding", "", 0},
		{"54 changed annotation", strings.ReplaceAll(valid, "HighErrorRate summary", "another"), 200, "", Opened, 0},
		{"55 control characters and ANSI", strings.ReplaceAll(valid, "HighErrorRate summary", `\u001b[31mred\u0007\u202e`), 200, "", Opened, 0},
		{"white space only", " \r\n\t", 400, "empty", "", 0},
		{"alerts of other types", `{"groupKey":"k","alerts":[null,7,"x",[],{}]}`, 200, "", Opened, 4},
		{"version is an object", strings.Replace(valid, `"version":"4"`, `"version":{}`, 1), 400, "version", "", 0},
		{"version is a number", strings.Replace(valid, `"version":"4"`, `"version":4`, 1), 200, "", Opened, 0},
		{"version 1 that is not Grafana's", strings.Replace(valid, `"version":"4"`, `"version":"1"`, 1), 400, "version", "", 0},
		{"endless fingerprint", strings.Replace(valid, "0efe14da1e7f1083", strings.Repeat("f", 100_000), 1), 200, "", Opened, 0},
		{"year 20000", strings.Replace(valid, "2026-11-30T10:34:45.098536Z", "20000-01-01T00:00:00Z", 1), 200, "", Opened, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := openInbox(t, Options{})
			code, a := serve(t, newHandler(in), request([]byte(tt.body)))
			if code != tt.status || a.Reason != tt.reason {
				t.Fatalf("got %d %q (%s), want %d %q", code, a.Reason, a.Error, tt.status, tt.reason)
			}
			if len(a.Error) > 300 {
				t.Errorf("the answer is %d bytes long", len(a.Error))
			}
			var got Effect
			if len(a.Incidents) > 0 {
				got = a.Incidents[0].Effect
			}
			if got != tt.effect || len(incidents(t, in)) != len(a.Incidents) {
				t.Errorf("got %q, want %q", got, tt.effect)
			}
			if got := counted(t, in, "diagnose_webhook_spoilt_fields_total", ""); got != float64(tt.spoilt) {
				t.Errorf("spoilt fields: got %v, want %d", got, tt.spoilt)
			}
		})
	}
}

// TestDecodeErrors: the answers say what is wrong, where, and what was expected.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, want string }{
		{"34-version-5.json", `"version" is "5": want "4"`},
		{"41-trailing-garbage.bin", "not one JSON document: at byte 882 of 888: invalid character 'g' after top-level value"},
		{"43-bom.bin", "the body begins with a byte order mark: want plain UTF-8"},
		{"45-truncated-json.bin", "not one JSON document: at byte 440 of 440: unexpected end of JSON input"},
		{"46-empty.bin", "the body is empty: want one Alertmanager message"},
		{"47-invalid-utf8.bin", "the body is not UTF-8: at byte 131"},
		{"50-array-root.json", "the body is a JSON array: want one Alertmanager message, an object"},
		{"51-alerts-object.json", `"alerts" is not a list: want an Alertmanager message`},
		{"01-valid-json-not-alertmanager.json", `the object has no "alerts": want an Alertmanager message`},
	} {
		if _, err := Decode(readCase(t, tt.file)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v, want %s", tt.file, err, tt.want)
		}
	}
}

// TestSlowAndCut: bodies that do not come, over a real connection.
func TestSlowAndCut(t *testing.T) {
	t.Parallel()
	in := openInbox(t, Options{})
	hasty := httptest.NewServer(Handler(in, HandlerOptions{ReadTimeout: 50 * time.Millisecond}))
	defer hasty.Close()
	patient := httptest.NewServer(Handler(in, HandlerOptions{ReadTimeout: time.Minute, StoreTimeout: time.Minute}))
	defer patient.Close()
	send := func(to *httptest.Server, text string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprint(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	closed := func(c io.Closer) {
		t.Helper()
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	slow := send(hasty, head+"Content-Length: 1000\r\n\r\n{\"alerts\":")
	defer closed(slow)
	// It reads to the end: the server closes the connection.
	if b, err := io.ReadAll(slow); err != nil || !strings.Contains(string(b), "503 Service Unavailable") || !strings.Contains(string(b), "slow-body") {
		t.Errorf("slow body: got %s, %v, want 503 slow-body", b, err)
	}
	closed(send(patient, head+"Content-Length: 1000\r\n\r\n{}"))
	eventually(t, "the cut body is counted", func() bool {
		return counted(t, in, "diagnose_webhook_refused_total", "cut-body") == 1
	})
	body := readCase(t, "v35-firing-single.json")
	chunked := send(patient, head+"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body))
	defer closed(chunked)
	if b, err := io.ReadAll(chunked); err != nil || !strings.Contains(string(b), "200 OK") || !strings.Contains(string(b), `"effect":"opened"`) {
		t.Errorf("chunked body: got %s, %v, want 200 opened", b, err)
	}
	onlyIncident(t, in)
}

// TestLogs: what comes from outside is escaped and bounded in the log, and no
// token or body is in it.
func TestLogs(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	in := openInbox(t, Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	h := Handler(in, HandlerOptions{Tokens: []string{"canary-token"}, StoreTimeout: time.Minute})
	evil := `\u001b[31mx\u202e` + strings.Repeat("y", 10_000)
	body := strings.ReplaceAll(string(readCase(t, "v35-firing-single.json")), "HighErrorRate", evil)
	body = strings.Replace(body, `"startsAt":"`, `"startsAt":"canary-body`, 1)
	for _, token := range []string{"canary-token", "canary-wrong"} {
		r := request([]byte(body))
		r.Header.Set("Authorization", "Bearer "+token)
		serve(t, h, r)
	}
	got := log.String()
	for _, bad := range []string{"canary", "\x1b", "\u202e", "yyyyyyyyyy" + strings.Repeat("y", 100)} {
		if strings.Contains(got, bad) {
			t.Errorf("the log holds %q: %s", bad, got)
		}
	}
	if !strings.Contains(got, "notification stored") || !strings.Contains(got, "alerts[0].startsAt") || !strings.Contains(got, "wrong-token") {
		t.Errorf("the log lacks something: %s", got)
	}
}
