package notify_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/regpath/diagnose/notify"
)

func TestSecretNeverPrints(t *testing.T) {
	t.Parallel()
	const canary = "xoxb-canary"
	s := notify.NewSecret(canary)
	type config struct {
		Token  notify.Secret
		hidden notify.Secret
		ptr    *notify.Secret
	}
	c := config{s, s, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%e", "%08.3f"} {
		for _, v := range []any{s, &s, c, &c, []notify.Secret{s}, map[string]notify.Secret{"a": s}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("secret", "token", s, "config", c, "pointer", &c)
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := marshal(struct{ Token notify.Secret }{s})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	fmt.Fprint(&out, errors.New("x"), s)
	text := out.String()
	if strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
		t.Errorf("the secret shows in:\n%s", text)
	}
	if !strings.Contains(text, "<secret>") {
		t.Error("nothing stands in its place")
	}
	_ = c.hidden
	_ = c.ptr
}

func TestSecretReads(t *testing.T) {
	t.Parallel()
	var c struct{ Token notify.Secret }
	if err := yaml.NewDecoder(strings.NewReader("token: xoxb-1")).Decode(&c); err != nil {
		t.Fatal(err)
	}
	if got := c.Token.Reveal(); got != "xoxb-1" {
		t.Errorf("Reveal() = %q, want xoxb-1", got)
	}
	if got := (notify.Secret{}).Reveal(); got != "" {
		t.Errorf("zero secret reveals %q", got)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("deliver: %w", &notify.Error{Class: notify.Auth, RetryAfter: time.Second, Hint: "mend it", Err: io.ErrUnexpectedEOF})
	if got := notify.ClassOf(err); got != notify.Auth {
		t.Errorf("ClassOf = %v, want auth", got)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("the cause is not unwrapped")
	}
	if got, want := err.Error(), "deliver: unexpected EOF (mend it)"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got := notify.ClassOf(io.EOF); got != notify.Unknown {
		t.Errorf("ClassOf(foreign error) = %v, want unknown", got)
	}
	for c, want := range map[notify.Class]string{notify.Unknown: "unknown outcome", notify.Retry: "retry", notify.Payload: "payload", notify.Destination: "destination", notify.Auth: "auth", 42: "class(42)"} {
		if c.String() != want {
			t.Errorf("Class(%d) = %q, want %q", int(c), c, want)
		}
	}
}
