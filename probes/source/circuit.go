package source

import (
	"fmt"
	"sync"
	"time"
)

// openFor is how long a dead target is left alone. It covers one run, in which
// several samples would otherwise each wait out their timeout, and is over
// before anybody starts the next.
const openFor = 5 * time.Second

// circuit remembers that a target is dead. The zero value is closed.
type circuit struct {
	mu    sync.Mutex
	err   error
	until time.Time
}

// check returns the earlier error while the circuit is open, and that the target
// was not asked again.
func (c *circuit) check() error {
	if err := c.reason(); err != nil {
		return fmt.Errorf("%w (not asked again)", err)
	}
	return nil
}

// reason returns the earlier error while the circuit is open.
func (c *circuit) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || !time.Now().Before(c.until) {
		return nil
	}
	return c.err
}

// note opens the circuit when err means a dead target and closes it when there
// is no error.
func (c *circuit) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.err = nil
	case Dead(err):
		c.err, c.until = err, time.Now().Add(openFor)
	}
}
