// This file must not compile with any BASE in tests/CMakeLists.txt.

#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>

class Wrong : public rowgrad::BASE {
  rowgrad::Variable forward(rowgrad::Tape&, const rowgrad::Ids&) override;
};
