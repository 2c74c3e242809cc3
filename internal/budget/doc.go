// Package budget shares a number of bytes out among the holders of memory.
//
//	Budget: size
//	  group "shop"    at most as much as is left free
//	    Share: its own bytes first, then those of the Budget
//	    Share
//	  group "hostile" the same
//
// Guarantees:
//   - All shares together never take more than the size, and beside it the own bytes of each. Only Overdraw exceeds that,
//     by one share of each group at a time.
//   - The own bytes of a share are always there, whatever others do.
//   - A group takes no more than it leaves free. So one that takes all it can leaves half to the others, two leave a
//     third, and a group that has taken nothing always finds something.
//   - It refuses instead of waiting, and allocates nothing after the first byte of a group.
package budget
