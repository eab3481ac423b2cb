package local

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/regpath/diagnose/reference/load"
)

// crowdFor is how long a crowd stays if nobody sends it home.
const crowdFor = time.Hour

// startCrowd lets many try to register the name, as users do.
func (p *Path) startCrowd(ctx context.Context, name string, perSecond float64) (stop func(), err error) {
	to, err := p.loopbackURL()
	if err != nil {
		return nil, err
	}
	profile := load.Profile{Rate: perSecond, Duration: crowdFor, HotName: name, HotShare: 1, HotRegister: true}
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = load.Run(ctx, to, profile) // what comes of it is in the figures of the checker
	}()
	return func() { cancel(); <-gone }, nil
}

// loopbackURL is where the path serves, seen from this machine. Load goes nowhere else.
func (p *Path) loopbackURL() (string, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", fmt.Errorf("address of the path: %w", err)
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case ip.IsLoopback():
	case ip.IsUnspecified():
		u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	default:
		return "", fmt.Errorf("the checker listens on %s, want a loopback address to send load to", u.Host)
	}
	return u.String(), nil
}
