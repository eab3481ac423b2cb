package cache

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Secret is a string that never prints itself.
type Secret string

const redacted = "<secret>"

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return redacted }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Defaults of RedisOptions.
const (
	DefaultPoolSize = 20
	DefaultTimeout  = 300 * time.Millisecond
)

// RedisOptions say how to reach Redis.
type RedisOptions struct {
	Address  string // host:port
	Username string
	Password Secret
	DB       int
	TLS      *tls.Config // nil for plain TCP
	// PoolSize is the number of connections; 0 means DefaultPoolSize.
	PoolSize int
	// Timeout bounds every command, waiting for a connection included; 0 means
	// DefaultTimeout.
	Timeout time.Duration
	// ClientName is how the connections of the pool, and no others, call
	// themselves, so that the server's list of connections tells whose they
	// are; empty means a name of this instance's own.
	ClientName string
}

// ParseRedis reads "host:port" or a redis:// or rediss:// URL. Errors do not
// repeat s, which may hold a password.
func ParseRedis(s string) (RedisOptions, error) {
	if !strings.Contains(s, "://") {
		return RedisOptions{Address: s}, nil
	}
	u, err := redis.ParseURL(s)
	if err != nil || u.Network != "tcp" {
		return RedisOptions{}, errors.New("redis address is neither host:port nor a redis:// or rediss:// URL")
	}
	return RedisOptions{Address: u.Addr, Username: u.Username, Password: Secret(u.Password), DB: u.DB, TLS: u.TLSConfig}, nil
}

func (o RedisOptions) withDefaults() (RedisOptions, error) {
	if o.Address == "" {
		return o, errors.New("redis address is missing")
	}
	if o.PoolSize < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("redis pool size (%d) and timeout (%s) must not be negative", o.PoolSize, o.Timeout)
	}
	if o.PoolSize == 0 {
		o.PoolSize = DefaultPoolSize
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.ClientName == "" {
		o.ClientName = "checker-" + strings.ToLower(rand.Text()[:8])
	}
	return o, nil
}

// client returns a go-redis client that tries once and gives up in time: a
// cache that retries makes an outage longer, and by its defaults one command
// may cost four times five dials. Half the time is for a connection, half for
// the command: one that got its connection at the last moment would time out
// and take the connection with it, and a busy pool would spend itself on
// dialling. connected, if any, is told of every connection that was opened.
func (o RedisOptions) client(connected func()) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: o.Address, Username: o.Username, Password: string(o.Password), DB: o.DB, TLSConfig: o.TLS,
		ClientName: o.ClientName,
		OnConnect: func(context.Context, *redis.Conn) error {
			if connected != nil {
				connected()
			}
			return nil
		},
		DisableIdentity:          true,
		PoolSize:                 o.PoolSize,
		PipelinePoolSize:         -1,
		MaxRetries:               -1,
		DialerRetries:            1,
		DialTimeout:              o.Timeout / 2,
		ReadTimeout:              o.Timeout / 2,
		WriteTimeout:             o.Timeout / 2,
		PoolTimeout:              o.Timeout / 2,
		ContextTimeoutEnabled:    true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}
