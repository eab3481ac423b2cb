package local

import (
	"crypto/rand"
	"fmt"

	"github.com/regpath/diagnose/reference/cache"
)

// receipts signs what registrants may show at every instance with the same key. Without a key they are good at this one.
func receipts(key cache.Secret) (*cache.Receipts, error) {
	if key == "" {
		key = cache.Secret(rand.Text())
	}
	r, err := cache.NewReceipts(key)
	if err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	return r, nil
}
