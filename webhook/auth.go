package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
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
