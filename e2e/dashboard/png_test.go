package dashboard

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// colours is the number of colours of a picture: the pages have few, and the shades of letters and of what glows.
const colours = 96

// small writes a picture with the colours that most of it has, which takes a third of the bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	counts := map[color.RGBA]int{}
	eachPixel(full, func(_, _ int, c color.RGBA) { counts[c]++ })
	palette := paletteOf(counts)
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	paletted := image.NewPaletted(full.Bounds(), palette)
	eachPixel(full, func(x, y int, c color.RGBA) { paletted.SetColorIndex(x, y, nearest[c]) })
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, paletted))
	return out.Bytes()
}

func eachPixel(picture image.Image, do func(x, y int, c color.RGBA)) {
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			do(x, y, color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255})
		}
	}
}

// paletteOf chooses the most frequent colours, first among those that differ much: shades of one colour are near each other.
func paletteOf(counts map[color.RGBA]int) color.Palette {
	most := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		most = append(most, c)
	}
	key := func(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
	slices.SortFunc(most, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(key(a), key(b)))
	})
	palette := color.Palette{}
	for _, apart := range []int{24, 0} {
		for _, c := range most {
			near := func(p color.Color) bool { return distance(p.(color.RGBA), c) <= apart }
			if len(palette) < colours && !slices.ContainsFunc(palette, near) {
				palette = append(palette, c)
			}
		}
	}
	return palette
}

// distance is how much two colours differ, in all channels together.
func distance(a, b color.RGBA) int {
	apart := func(a, b uint8) int { return max(int(a)-int(b), int(b)-int(a)) }
	return apart(a.R, b.R) + apart(a.G, b.G) + apart(a.B, b.B)
}
