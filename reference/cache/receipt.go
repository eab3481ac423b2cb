package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
)

// ReceiptTTL is how long a receipt is good for: until the news of a
// registration have reached every instance, a restart of Redis included.
const ReceiptTTL = 30 * time.Second

// minReceiptKey is the fewest bytes that a key of receipts may have.
const minReceiptKey = 16

// Receipts issues and reads read-your-writes markers. A registrant gets one
// with the answer and shows it with the next checks; an instance that has not
// heard of the registration yet believes the receipt instead of its own filter
// and caches. The marker travels with the client because nothing else is sure
// to be there in time: the filter of another instance answers "free" without
// asking anybody, and Redis may be late or down. It is signed so that nobody
// can make an instance say "taken" of a name without having registered it.
type Receipts struct{ key []byte }

// NewReceipts returns receipts signed with key, which every instance must
// share.
func NewReceipts(key Secret) (*Receipts, error) {
	if len(key) < minReceiptKey {
		return nil, errors.New("key of receipts must have at least 16 bytes")
	}
	return &Receipts{[]byte(key)}, nil
}

// Issue returns a receipt for name, which was registered at the given time. It
// holds letters, digits, '-', '_' and a dot.
func (r *Receipts) Issue(name string, at time.Time) string {
	until := strconv.FormatInt(at.Add(ReceiptTTL).Unix(), 36)
	return until + "." + base64.RawURLEncoding.EncodeToString(r.sign(until, name))
}

// Valid says whether receipt was issued for name and is still good.
func (r *Receipts) Valid(receipt, name string, now time.Time) bool {
	until, signature, ok := strings.Cut(receipt, ".")
	if !ok {
		return false
	}
	sum, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(sum, r.sign(until, name)) {
		return false
	}
	unix, err := strconv.ParseInt(until, 36, 64)
	return err == nil && now.Before(time.Unix(unix, 0))
}

func (r *Receipts) sign(until, name string) []byte {
	mac := hmac.New(sha256.New, r.key)
	mac.Write([]byte("receipt\x00" + until + "\x00" + name)) // a hash never fails to write
	return mac.Sum(nil)[:16]
}
