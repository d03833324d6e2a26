package assert
