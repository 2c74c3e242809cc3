package filter

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// perUnit is how many characters cost one.
	perUnit = 10
	// zonePrice is for functions that look up a time zone, which is in a file.
	zonePrice = 100
)

// prices adds to the costs of CEL what these leave out. They go by the types of the expression, which of data are
// not known, and count a value with all that is in it as one.
type prices struct{}

// CallCost returns what a call has cost, or nil to leave that to CEL.
func (prices) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	price := 0
	switch function {
	case operators.Equals, operators.NotEquals:
		price = comparison(args[0], args[1])
	case operators.In, operators.OldIn:
		price = search(args[0], args[1])
	case operators.Add, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		price = texts(args[0]) + texts(args[1])
	case overloads.Size, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble,
		overloads.TypeConvertBool, overloads.TypeConvertTimestamp, overloads.TypeConvertDuration,
		overloads.TypeConvertString, overloads.TypeConvertBytes:
		price = texts(args[0])
	case "format":
		price = texts(args[0]) + content(args[1], maxWork)/perUnit + texts(result)
	case "strings.quote":
		price = texts(args[0])
	default:
		if strings.HasSuffix(overload, "_with_tz") {
			price = zonePrice
		}
	}
	if price == 0 {
		return nil
	}
	cost := uint64(1 + price)
	return &cost
}

// texts is the price to look at every character, if the value has some.
func texts(value ref.Val) int {
	switch v := value.(type) {
	case types.String:
		return len(v) / perUnit
	case types.Bytes:
		return len(v) / perUnit
	default:
		return 0
	}
}

// comparison is the price to compare two values to their last part. It goes where the comparison goes, and so takes
// no longer.
func comparison(a, b ref.Val) int {
	switch left := a.(type) {
	case types.String:
		return min(texts(a), texts(b))
	case types.Bytes:
		return min(texts(a), texts(b))
	case traits.Lister:
		right, ok := b.(traits.Lister)
		if !ok || items(left) != items(right) {
			return 0
		}
		return lists(left, right)
	case traits.Mapper:
		right, ok := b.(traits.Mapper)
		if !ok || items(left) != items(right) {
			return 0
		}
		return mappings(left, right)
	default:
		return 0
	}
}

func lists(left, right traits.Lister) int {
	price := 0
	for l, r := left.Iterator(), right.Iterator(); l.HasNext() == types.True && price <= maxCost; {
		price += 1 + comparison(l.Next(), r.Next())
	}
	return price
}

func mappings(left, right traits.Mapper) int {
	price := 0
	for it := left.Iterator(); it.HasNext() == types.True && price <= maxCost; {
		key := it.Next()
		other, ok := right.Find(key)
		if !ok {
			return price
		}
		value, _ := left.Find(key)
		price += 1 + comparison(value, other)
	}
	return price
}

// search is the price to compare a value with every element of a list.
func search(value, in ref.Val) int {
	list, ok := in.(traits.Lister)
	if !ok {
		return texts(value)
	}
	price := 0
	for it := list.Iterator(); it.HasNext() == types.True && price <= maxCost; {
		price += 1 + comparison(value, it.Next())
	}
	return price
}
