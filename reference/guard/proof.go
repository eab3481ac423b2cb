package guard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"strconv"
	"time"
)

// Limits and defaults of ProofOptions.
const (
	MinSecretBytes    = 16
	DefaultDifficulty = 18 // about 260,000 hashes: a blink for a person, a bill for a bot
	MaxDifficulty     = 32
)

// The token is base64url of: version (1 byte), difficulty (1), expiry in Unix
// milliseconds (8, big-endian), HMAC-SHA256 of all before and the attempt (32).
const (
	proofKind    = "proof-of-work"
	proofVersion = 1
	headerBytes  = 1 + 1 + 8
	tokenBytes   = headerBytes + sha256.Size
	maxAnswer    = 64
)

// Secret is a key that never prints itself.
type Secret []byte

const redacted = "<secret>"

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ProofOptions are the options of Proof.
type ProofOptions struct {
	// Secret signs the challenges; all instances share it. At least
	// MinSecretBytes.
	Secret Secret
	// Difficulty is the number of leading zero bits asked for; 0 means
	// DefaultDifficulty. Each bit doubles the work.
	Difficulty int
	// TTL is how long a challenge may be solved; 0 means as long as the marker of
	// an attempt lives.
	TTL time.Duration
	// Now is the clock, usually time.Now.
	Now func() time.Time
}

// Proof is the local Captcha: the client looks for an answer such that
// SHA-256(token ":" answer) begins with a number of zero bits. It proves no
// human, it puts a price on a registration and needs no third party; whoever
// needs more puts another Captcha in its place. It keeps no state, so any
// instance can verify what another has issued.
type Proof struct {
	secret     []byte
	difficulty int
	ttl        time.Duration
	now        func() time.Time
}

var _ Captcha = (*Proof)(nil)

// NewProof returns a Proof. Errors do not repeat the secret.
func NewProof(o ProofOptions) (*Proof, error) {
	if o.Difficulty == 0 {
		o.Difficulty = DefaultDifficulty
	}
	if o.TTL == 0 {
		o.TTL = DefaultMarkerTTL
	}
	switch {
	case len(o.Secret) < MinSecretBytes:
		return nil, fmt.Errorf("secret has %d bytes, at least %d are needed", len(o.Secret), MinSecretBytes)
	case o.Difficulty < 1 || o.Difficulty > MaxDifficulty:
		return nil, fmt.Errorf("difficulty must lie between 1 and %d, got %d", MaxDifficulty, o.Difficulty)
	case o.TTL < 0:
		return nil, fmt.Errorf("time to solve a challenge must not be negative, got %s", o.TTL)
	case o.Now == nil:
		return nil, errors.New("clock is missing")
	}
	return &Proof{secret: append([]byte(nil), o.Secret...), difficulty: o.Difficulty, ttl: o.TTL, now: o.Now}, nil
}

// String implements fmt.Stringer.
func (*Proof) String() string { return proofKind }

// GoString implements fmt.GoStringer.
func (*Proof) GoString() string { return proofKind }

// Issue implements Captcha.
func (p *Proof) Issue(_ context.Context, attempt string) (Challenge, error) {
	expires := p.now().Add(p.ttl).Truncate(time.Millisecond)
	raw := make([]byte, 0, tokenBytes)
	raw = append(raw, proofVersion, byte(p.difficulty))
	raw = binary.BigEndian.AppendUint64(raw, uint64(expires.UnixMilli()))
	raw = append(raw, p.mac(raw, attempt)...)
	return Challenge{
		Kind: proofKind, Token: base64.RawURLEncoding.EncodeToString(raw),
		Difficulty: p.difficulty, Expires: expires,
	}, nil
}

// Verify implements Captcha.
func (p *Proof) Verify(_ context.Context, attempt, token, answer string) error {
	raw, difficulty, expires, ok := decodeToken(token)
	switch {
	case !ok, len(answer) > maxAnswer:
		return fmt.Errorf("%w: it is malformed", ErrUnsolved)
	case !hmac.Equal(raw[headerBytes:], p.mac(raw[:headerBytes], attempt)):
		return fmt.Errorf("%w: it was not set for this attempt", ErrUnsolved)
	case !p.now().Before(expires):
		return fmt.Errorf("%w: it has expired", ErrUnsolved)
	case zeroBits(token, answer) < difficulty:
		return fmt.Errorf("%w: the answer is wrong", ErrUnsolved)
	}
	return nil
}

// Solve does a client's work. It gives up when ctx ends.
func Solve(ctx context.Context, token string) (answer string, err error) {
	_, difficulty, _, ok := decodeToken(token)
	if !ok {
		return "", errors.New("challenge is malformed")
	}
	for n := uint64(0); ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return "", fmt.Errorf("solve challenge: %w", ctx.Err())
		}
		if answer = strconv.FormatUint(n, 36); zeroBits(token, answer) >= difficulty {
			return answer, nil
		}
	}
}

func (p *Proof) mac(header []byte, attempt string) []byte {
	h := hmac.New(sha256.New, p.secret)
	h.Write(header)
	h.Write([]byte(attempt)) // the header's length is fixed: no two inputs run into each other
	return h.Sum(nil)
}

// decodeToken takes a token apart. Every token has one spelling only.
func decodeToken(token string) (raw []byte, difficulty int, expires time.Time, ok bool) {
	if len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return nil, 0, time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenBytes || raw[0] != proofVersion {
		return nil, 0, time.Time{}, false
	}
	expires = time.UnixMilli(int64(binary.BigEndian.Uint64(raw[2:headerBytes])))
	return raw, int(raw[1]), expires, true
}

func zeroBits(token, answer string) int {
	sum := sha256.Sum256([]byte(token + ":" + answer))
	n := 0
	for _, b := range sum {
		n += bits.LeadingZeros8(b)
		if b != 0 {
			break
		}
	}
	return n
}
