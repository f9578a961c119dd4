// Package episode tells the lives of chains: when one begins to cost something, when
// there is news of it, and when it is over. A chain stays in the ticks for minutes, and
// its figures are those of the last minute; people and programs want to be told once
// when it begins, seldom while it lasts, and once what it has cost when it is over.
//
// The package is pure: its time is that of the ticks, and the same ticks give the same
// episodes. Memory is bounded by the chains that are in the ticks. Package session calls
// it, from one goroutine.
package episode
