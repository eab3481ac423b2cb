package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/guard"
)

// GuardOptions say what stands before the service.
type GuardOptions struct {
	// On limits each address, each name, and the instance.
	On bool
	// Gate makes every registration begin with an attempt, of which some are challenged when many come; it needs On.
	Gate bool
	// Secret signs the challenges, the same on all instances; empty means one of this instance's own.
	Secret guard.Secret
	// Proxies are those whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
	// Strict limits the addresses of this machine too, which are trusted otherwise, and the instance as a whole.
	Strict bool
}

// gatePool is the number of connections that the gate may use at once.
const gatePool = 4

func (o GuardOptions) validate() error {
	if o.Gate && !o.On {
		return errors.New("the gate is a part of the guard, which is off")
	}
	if n := len(o.Secret); n > 0 && n < guard.MinSecretBytes {
		return fmt.Errorf("secret of the guard has %d bytes, at least %d are needed", n, guard.MinSecretBytes)
	}
	return nil
}

// openGuard makes the guard, or none where it is off.
func (p *Path) openGuard(o GuardOptions, redis cache.RedisOptions, failed func(reference.Failure)) (*guard.Guard, *guard.Origin, error) {
	if !o.On {
		return nil, nil, nil
	}
	origin, err := guard.NewOrigin(o.Proxies)
	if err != nil {
		return nil, nil, err
	}
	options := guard.Options{
		Now: time.Now,
		Failed: func(check string, err error) {
			failed(reference.Failure{Layer: reference.Guard, Target: check, Err: err})
		},
	}
	if !o.Strict {
		loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		if options.Reputation, err = guard.NewNetworks(loopback, nil); err != nil {
			return nil, nil, err
		}
		options.Instance = guard.Limit{Count: -1} // the load generator of this machine is trusted as well
	}
	if o.Gate {
		if err := p.openGate(o, redis, &options); err != nil {
			return nil, nil, err
		}
	}
	g, err := guard.New(options)
	return g, origin, err
}

func (p *Path) openGate(o GuardOptions, redis cache.RedisOptions, options *guard.Options) error {
	secret := o.Secret
	if len(secret) == 0 {
		secret = make(guard.Secret, guard.MinSecretBytes)
		_, _ = rand.Read(secret) // never fails
	}
	client := newClient(redis, gatePool)
	p.onClose(client.Close)
	var err error
	if options.Gate, err = guard.NewGate(client, guard.GateOptions{}); err != nil {
		return err
	}
	options.Captcha, err = guard.NewProof(guard.ProofOptions{Secret: secret, Now: time.Now})
	return err
}
