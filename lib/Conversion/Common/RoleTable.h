//===- RoleTable.h - The tagged operations of a task loop -------*- C++ -*-===//
//
// Collects the operations with a role and hands them out by name and kind. What
// is missing, repeated or of another kind is an error, after which the table is
// no longer valid.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_LIB_CONVERSION_COMMON_ROLETABLE_H
#define ATTN_LIB_CONVERSION_COMMON_ROLETABLE_H

#include "TiledForm.h"
#include "llvm/ADT/StringMap.h"

namespace attn {

class RoleTable {
public:
  explicit RoleTable(mlir::scf::ForallOp tasks) : tasks(tasks) {
    tasks.getBody()->walk([&](mlir::Operation *op) {
      if (llvm::StringRef role = getRole(op); !role.empty())
        byRole[role].push_back(op);
    });
  }

  bool isValid() const { return valid; }

  /// All operations with the role, in their order.
  llvm::ArrayRef<mlir::Operation *> all(llvm::StringRef role) const {
    auto found = byRole.find(role);
    if (found == byRole.end())
      return {};
    return found->second;
  }

  /// The one operation with the role, of any kind, or null.
  mlir::Operation *find(llvm::StringRef role) {
    llvm::ArrayRef<mlir::Operation *> ops = all(role);
    if (ops.size() > 1) {
      ops[1]->emitOpError("repeats the role '") << role << "' in one task loop";
      valid = false;
    }
    return ops.empty() ? nullptr : ops.front();
  }

  template <typename OpTy>
  OpTy get(llvm::StringRef role, bool required = true) {
    mlir::Operation *op = find(role);
    auto typed = llvm::dyn_cast_or_null<OpTy>(op);
    if (!op && required) {
      tasks.emitOpError("expects an operation with attn.role = \"")
          << role << "\" in the tiled form; run attn-tile first";
      valid = false;
    } else if (op && !typed) {
      op->emitOpError("cannot have the role '")
          << role << "', expected " << OpTy::getOperationName();
      valid = false;
    }
    return typed;
  }

private:
  mlir::scf::ForallOp tasks;
  llvm::StringMap<llvm::SmallVector<mlir::Operation *, 2>> byRole;
  bool valid = true;
};

} // namespace attn

#endif // ATTN_LIB_CONVERSION_COMMON_ROLETABLE_H
