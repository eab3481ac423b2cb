package guard_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/guard"
)

func issue(t testing.TB, p *guard.Proof, attempt string) (token, answer string) {
	t.Helper()
	c, err := p.Issue(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = guard.Solve(t.Context(), c.Token)
	if err != nil {
		t.Fatal(err)
	}
	return c.Token, answer
}

// verdict is what Verify says, in short.
func verdict(t testing.TB, p *guard.Proof, attempt, token, answer string) string {
	t.Helper()
	err := p.Verify(t.Context(), attempt, token, answer)
	if err == nil {
		return "solved"
	}
	if !errors.Is(err, guard.ErrUnsolved) {
		t.Errorf("Verify(%.100q, %.100q, %.100q) = %v, which is not ErrUnsolved", attempt, token, answer, err)
	}
	return strings.TrimPrefix(err.Error(), "challenge is not solved: ")
}

func TestProof(t *testing.T) {
	t.Parallel()
	c := newClock()
	p := newProof(t, c.now)
	token, answer := issue(t, p, "attempt")
	f := func(p *guard.Proof, attempt, token, answer, want string) {
		t.Helper()
		if got := verdict(t, p, attempt, token, answer); got != want {
			t.Errorf("Verify(%.100q, %.100q, %.100q): %s, want %s", attempt, token, answer, got, want)
		}
	}
	f(p, "attempt", token, answer, "solved")
	f(newProof(t, c.now), "attempt", token, answer, "solved") // by another instance

	f(p, "attempt", token, answer+"x", "the answer is wrong")
	f(p, "attempt", token, "", "the answer is wrong")
	f(p, "attempt", token, strings.Repeat("0", 65), "it is malformed")
	f(p, "attempt", token, strings.Repeat("0", 1<<20), "it is malformed")

	const foreign = "it was not set for this attempt"
	f(p, "another", token, answer, foreign)
	f(p, "", token, answer, foreign)
	f(p, "attemptattempt", token, answer, foreign)
	stranger, err := guard.NewProof(guard.ProofOptions{Secret: []byte("another secret of some length"), Difficulty: 8, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	f(stranger, "attempt", token, answer, foreign)

	// No bit can be changed.
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			want := foreign
			if i == 0 {
				want = "it is malformed" // another version
			}
			f(p, "attempt", base64.RawURLEncoding.EncodeToString(raw), answer, want)
			raw[i] ^= 1 << bit
		}
	}

	for _, bad := range []string{
		"", "x", token[1:], token + "A", token[:len(token)-1] + "=", token[:len(token)-1] + "\n", token[:len(token)-2] + "\r\n",
		" " + token[1:], "+" + token[1:], "/" + token[1:], "\x00" + token[1:], "é" + token[2:],
		token[:20] + "\n" + token[20:], strings.Repeat("A", len(token)), strings.Repeat("A", 1<<20),
	} {
		f(p, "attempt", bad, answer, "it is malformed")
	}

	c.advance(time.Minute - 1)
	f(p, "attempt", token, answer, "solved")
	c.advance(1)
	f(p, "attempt", token, answer, "it has expired")
}

func TestProofDifficulty(t *testing.T) {
	t.Parallel()
	c := newClock()
	easy := newProof(t, c.now)
	hard, err := guard.NewProof(guard.ProofOptions{Secret: []byte("sixteen bytes or more"), Difficulty: 14, TTL: time.Second, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	challenge, err := hard.Issue(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if challenge.Kind != "proof-of-work" || challenge.Difficulty != 14 || !challenge.Expires.Equal(c.now().Add(time.Second)) {
		t.Errorf("Issue = %+v", challenge)
	}
	answer, err := guard.Solve(t.Context(), challenge.Token)
	if err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, hard, "a", challenge.Token, answer); got != "solved" {
		t.Errorf("the solution of 14 bits: %s", got)
	}
	// The difficulty is in the token: instances with another one agree.
	if got := verdict(t, easy, "a", challenge.Token, answer); got != "solved" {
		t.Errorf("the solution of 14 bits, at an instance with 8: %s", got)
	}
	// A tenth of all answers would do for 3 bits, hardly any for 14.
	wrong := 0
	for i := range 100 {
		if verdict(t, easy, "a", challenge.Token, fmt.Sprintf("x%d", i)) == "the answer is wrong" {
			wrong++
		}
	}
	if wrong < 99 {
		t.Errorf("%d of 100 answers at random were wrong", wrong)
	}
}

func TestSolve(t *testing.T) {
	t.Parallel()
	if _, err := guard.Solve(t.Context(), "rubbish"); err == nil {
		t.Error("Solve(rubbish) succeeded")
	}
	p, err := guard.NewProof(guard.ProofOptions{Secret: make([]byte, 16), Difficulty: guard.MaxDifficulty, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Issue(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := guard.Solve(gone, c.Token); !errors.Is(err, context.Canceled) {
		t.Errorf("Solve without time = %v", err)
	}
}

func TestProofOptions(t *testing.T) {
	t.Parallel()
	f := func(o guard.ProofOptions, want string) {
		t.Helper()
		o.Now = time.Now
		if _, err := guard.NewProof(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("NewProof error = %v, want %q in it and no secret", err, want)
		}
	}
	secret := []byte("hush, hush, hush, hush")
	f(guard.ProofOptions{}, "secret has 0 bytes, at least 16 are needed")
	f(guard.ProofOptions{Secret: secret[:15]}, "secret has 15 bytes")
	f(guard.ProofOptions{Secret: secret, Difficulty: -1}, "difficulty must lie between 1 and 32, got -1")
	f(guard.ProofOptions{Secret: secret, Difficulty: 33}, "got 33")
	f(guard.ProofOptions{Secret: secret, TTL: -1}, "must not be negative")
	if _, err := guard.NewProof(guard.ProofOptions{Secret: secret}); err == nil {
		t.Error("NewProof without a clock succeeded")
	}
	// The secret is copied.
	c := newClock()
	p, err := guard.NewProof(guard.ProofOptions{Secret: secret, Difficulty: 1, Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	token, answer := issue(t, p, "a")
	clear(secret)
	if got := verdict(t, p, "a", token, answer); got != "solved" {
		t.Errorf("after the caller wiped its secret: %s", got)
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	o := guard.ProofOptions{Secret: guard.Secret("hush, hush, hush, hush"), Now: time.Now}
	p, err := guard.NewProof(o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q %v %+v %#v", o.Secret, o, o, o.Secret, o.Secret, p, p, p)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", o.Secret, "options", o, "proof", p)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", o.Secret)
	if err := json.NewEncoder(&out).Encode(o.Secret); err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{"hush", "104 117 115 104", "0x68, 0x75", "aHVza", "68757368"} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("the secret prints itself as %q: %s", leak, &out)
		}
	}
}

func FuzzProof(f *testing.F) {
	c := newClock()
	p := newProof(f, c.now)
	token, answer := issue(f, p, "attempt")
	f.Add("attempt", token, answer)
	f.Add("attempt", token, "")
	f.Add("", strings.Repeat("A", len(token)), "0")
	expired := binary.BigEndian.AppendUint64([]byte{1, 8}, 1)
	f.Add("attempt", base64.RawURLEncoding.EncodeToString(append(expired, make([]byte, 32)...)), "0")
	f.Fuzz(func(t *testing.T, attempt, tok, ans string) {
		if verdict(t, p, attempt, tok, ans) == "solved" && (attempt != "attempt" || tok != token) {
			t.Errorf("Verify(%q, %q, %q): solved a challenge that was never set", attempt, tok, ans)
		}
	})
}
