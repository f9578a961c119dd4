// Package packages holds no code: its tests make the packages as make packages does, and
// take them through their lives.
package packages
