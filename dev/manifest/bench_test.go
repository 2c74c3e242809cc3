package manifest

import "testing"

// BenchmarkRead reads the sample: the first time, with the CRDs to compile, and again.
func BenchmarkRead(b *testing.B) {
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := Read("../../samples/orders"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		reader := NewReader()
		for b.Loop() {
			if _, _, err := reader.Read("../../samples/orders"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
