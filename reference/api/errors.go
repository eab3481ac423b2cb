package api

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/shard"
)

// ErrorCapacity is how many errors an ErrorLog keeps.
const ErrorCapacity = 1000

// maxMessage bounds the text of one error, in bytes.
const maxMessage = 1000

// ErrorLog keeps the newest failures in memory and counts all of them. It is
// safe for concurrent use.
type ErrorLog struct {
	mu       sync.Mutex
	ring     [ErrorCapacity]errorDoc
	recorded uint64
	byLayer  map[reference.Layer]uint64
}

// NewErrorLog returns an empty log.
func NewErrorLog() *ErrorLog { return &ErrorLog{byLayer: map[reference.Layer]uint64{}} }

// Record notes f with the present time.
func (l *ErrorLog) Record(f reference.Failure) {
	doc := errorDoc{
		At: time.Now(), Level: "error", Message: clip(f.Err.Error()),
		Layer: f.Layer, Target: f.Target, Code: code(f.Err),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.recorded%ErrorCapacity] = doc
	l.recorded++
	l.byLayer[f.Layer]++
}

// snapshot returns the kept errors, oldest first, and how many there were.
func (l *ErrorLog) snapshot() ([]errorDoc, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := min(l.recorded, ErrorCapacity)
	out := make([]errorDoc, 0, kept)
	for i := l.recorded - kept; i < l.recorded; i++ {
		out = append(out, l.ring[i%ErrorCapacity])
	}
	return out, l.recorded
}

func (l *ErrorLog) counts() map[reference.Layer]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.byLayer)
}

// clip cuts s to at most maxMessage bytes of valid UTF-8.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// code classifies err as the diagnostic contract says: a SQLSTATE, an errno
// name, a Redis error prefix, "pool_timeout", "timeout", or nothing.
func code(err error) string {
	var sql interface{ SQLState() string }
	var errno syscall.Errno
	var redisErr redis.Error
	var network net.Error
	switch {
	case errors.Is(err, cache.ErrNoConnection), errors.Is(err, shard.ErrNoConnection):
		return "pool_timeout"
	case errors.As(err, &sql):
		return sql.SQLState()
	case errors.As(err, &errno):
		return errnoName(errno)
	case errors.As(err, &redisErr):
		return redisPrefix(redisErr.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return ""
}

// errnoName names the errnos that a network or a full machine gives.
func errnoName(e syscall.Errno) string {
	switch e {
	case syscall.ECONNREFUSED:
		return "ECONNREFUSED"
	case syscall.ECONNRESET:
		return "ECONNRESET"
	case syscall.ECONNABORTED:
		return "ECONNABORTED"
	case syscall.EPIPE:
		return "EPIPE"
	case syscall.ETIMEDOUT:
		return "ETIMEDOUT"
	case syscall.EHOSTUNREACH:
		return "EHOSTUNREACH"
	case syscall.ENETUNREACH:
		return "ENETUNREACH"
	case syscall.EADDRNOTAVAIL:
		return "EADDRNOTAVAIL"
	case syscall.EMFILE:
		return "EMFILE"
	case syscall.ENFILE:
		return "ENFILE"
	case syscall.ENOSPC:
		return "ENOSPC"
	default:
		return ""
	}
}

// redisPrefix returns the first word of a Redis error if it is all capitals, as
// in "READONLY You can't write against a read only replica.".
func redisPrefix(text string) string {
	word, _, _ := strings.Cut(text, " ")
	for i := range len(word) {
		if word[i] < 'A' || word[i] > 'Z' {
			return ""
		}
	}
	return word
}
