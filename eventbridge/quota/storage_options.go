package quota

import (
	"errors"

	"github.com/spf13/pflag"
)

// StorageOptions say when events are refused.
type StorageOptions struct {
	Watermark float64 // share of the stream that publishers may fill; 0 and 1 leave refusing to the server
}

// DefaultStorageOptions keeps a twentieth of the stream for retries and redrives.
func DefaultStorageOptions() StorageOptions { return StorageOptions{Watermark: 0.95} }

// BindFlags adds --storage-watermark.
func (o *StorageOptions) BindFlags(fs *pflag.FlagSet) {
	fs.Float64Var(&o.Watermark, "storage-watermark", o.Watermark,
		"share of the stream of events above which new ones are refused, so that retries find room; 0 or 1: none")
}

// Validate checks the share.
func (o *StorageOptions) Validate() error {
	if !(o.Watermark >= 0 && o.Watermark <= 1) { // NaN is neither
		return errors.New("--storage-watermark must be from 0 to 1")
	}
	return nil
}

// refuses reports whether a stream is too full for new events.
func (o *StorageOptions) refuses(fill float64) bool { return o.enabled() && fill >= o.Watermark }

// near reports whether a stream may soon be too full.
func (o *StorageOptions) near(fill float64) bool { return o.enabled() && fill >= o.Watermark-approach }

func (o *StorageOptions) enabled() bool { return o.Watermark > 0 && o.Watermark < 1 }
