package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// bearer knows the tokens that are let in, by their hashes: of equal length, so
// that comparing them takes the same time whatever was sent.
type bearer struct {
	hashes [][sha256.Size]byte
}

type authResult int

const (
	authOK authResult = iota
	authMissing
	authWrong
)

func newBearer(tokens []string) bearer {
	var b bearer
	for _, t := range tokens {
		b.hashes = append(b.hashes, sha256.Sum256([]byte(t)))
	}
	return b
}

// check judges an Authorization header. Every token is compared with, match or
// no match.
func (b bearer) check(header string) authResult {
	if len(b.hashes) == 0 {
		return authOK
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return authMissing
	}
	sum := sha256.Sum256([]byte(token))
	match := 0
	for _, h := range b.hashes {
		match |= subtle.ConstantTimeCompare(sum[:], h[:])
	}
	if match == 0 {
		return authWrong
	}
	return authOK
}

// admit refuses a request without a token that is let in.
func (b bearer) admit(w http.ResponseWriter, r *http.Request) *refusal {
	switch b.check(r.Header.Get("Authorization")) {
	case authMissing:
		w.Header().Set("WWW-Authenticate", `Bearer realm="diagnose"`)
		return &refusal{http.StatusUnauthorized, "no-token", "a bearer token is required", nil}
	case authWrong:
		w.Header().Set("WWW-Authenticate", `Bearer realm="diagnose", error="invalid_token"`)
		return &refusal{http.StatusForbidden, "wrong-token", "the bearer token is not known here", nil}
	default:
		return nil
	}
}

// Guard lets only requests with one of the bearer tokens through to next.
func Guard(tokens []string, next http.Handler) http.Handler {
	auth := newBearer(tokens)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if no := auth.admit(w, r); no != nil {
			reply(w, no.status, answer{Status: "refused", Reason: no.reason, Error: no.text})
			return
		}
		next.ServeHTTP(w, r)
	})
}
